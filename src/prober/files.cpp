// Looking: what can be read, what is hidden, what was left open, what was left behind.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "prober.hpp"

namespace prober {
namespace {

constexpr long kProcMagic = 0x9fa0;
constexpr long kForgotten = 1800;         // s
constexpr int kMostDescriptors = 1 << 20; // more nobody can have unless the machine was told so

bool real_entry(const dirent* entry)
{
    return std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0;
}

/// How many entries a directory shows, at most `most`; -1: it cannot be read.
int entries_of(const char* path, int most)
{
    DIR* const dir = ::opendir(path);
    if (dir == nullptr) return -1;
    int count = 0;
    while (const dirent* entry = ::readdir(dir))
        if (real_entry(entry) && ++count >= most) break;
    ::closedir(dir);
    return count;
}

void read_it(const Words& w, Answer& answer)
{
    const int fd = ::open(w[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return say(answer, Outcome::Absent, false, "not there");
    if (fd < 0) return refused(answer, "opening it to read", errno, false);
    char byte = 0;
    if (!is_directory(w[0]) && ::read(fd, &byte, 1) < 0) return refused(answer, "reading it", errno, false);
    permitted(answer, "read");
}

/// What a deny rule names: nothing of it may show. An empty cover over it is a refusal.
void hidden(const Words& w, Answer& answer)
{
    struct stat st{};
    if (::lstat(w[0], &st) != 0) {
        if (errno == ENOENT) return say(answer, Outcome::Absent, false, "not there");
        return refused(answer, "looking at it", errno, errno != EACCES || ::geteuid() == 0);
    }
    if (S_ISDIR(st.st_mode)) {
        const int count = entries_of(w[0], 1);
        if (count > 0) return permitted(answer, "its entries show");
        if (count < 0) return refused(answer, "listing it", errno, true);
        return say(answer, Outcome::Refused, true, "an empty directory shows");
    }
    const int fd = ::open(w[0], O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return refused(answer, "opening it to read", errno, true);
    char byte = 0;
    if (::read(fd, &byte, 1) > 0) return permitted(answer, "its contents show");
    say(answer, Outcome::Refused, true, "an empty file shows");
}

/// A file that certainly lies outside, by its path there and the ways around: its contents may not show.
void seen(const Words& w, Answer& answer)
{
    const char* const ways[] = {"", "/proc/self/root", "/proc/1/root", "/proc/1/cwd",
                                "/proc/self/cwd/../../../../.."};
    int error = ENOENT;
    for (const char* way : ways) {
        const int fd = ::open(joined(way, w[0]), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) {
            error = errno;
            continue;
        }
        char text[256] = {};
        const ssize_t n = ::read(fd, text, sizeof text - 1);
        ::close(fd);
        if (n > 0 && std::strstr(text, w[1]) != nullptr)
            return say(answer, Outcome::Permitted, true, "read by way of %s/", way);
    }
    refused(answer, "opening it in five ways", error, true);
}

/// Descriptors beyond the standard three that this process was born with. Ours are the pipe of the answer.
void descriptors(const Words&, Answer& answer)
{
    char found[120] = {};
    std::size_t used = 0;
    int count = 0;
    // Asked one by one: nobody may look into us, and where somebody else opens directories in our place he
    // cannot list ours either.
    for (int fd = 3; fd < kMostDescriptors; ++fd) {
        if (::fcntl(fd, F_GETFD) < 0) continue;
        char link[64];
        char target[80] = {};
        std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (::readlink(link, target, sizeof target - 1) < 0) std::snprintf(target, sizeof target, "?");
        if (std::strncmp(target, "pipe:", 5) == 0 && fd <= 4) continue; // of this program
        ++count;
        used += static_cast<std::size_t>(
            std::snprintf(found + used, used < sizeof found ? sizeof found - used : 0, " %d=%s", fd, target));
        if (used >= sizeof found) used = sizeof found - 1;
    }
    if (count > 0) return say(answer, Outcome::Permitted, true, "%d inherited:%s", count, found);
    say(answer, Outcome::Refused, true, "none but the standard three");
}

/// What /proc tells about the machine is covered, or not there: the kernel's own file is a hole, also where
/// its permissions would still keep this user out.
void masked(const Words& w, Answer& answer)
{
    struct statfs fs{};
    if (::statfs(w[0], &fs) != 0)
        return errno == ENOENT ? say(answer, Outcome::Absent, false, "not there")
                               : refused(answer, "looking at it", errno, true);
    if (fs.f_type == kProcMagic) return permitted(answer, "the kernel's own is there, nothing covers it");
    if (is_directory(w[0]) && entries_of(w[0], 1) > 0) return permitted(answer, "its entries show");
    say(answer, Outcome::Refused, true, "something else covers it");
}

/// A process of the machine outside, known by its number and start time.
void process(const Words& w, Answer& answer)
{
    const int fd = ::open(joined(joined("/proc/", w[0]), "/stat"), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return refused(answer, "looking for it", errno, true);
    char text[1024] = {};
    (void)!::read(fd, text, sizeof text - 1);
    // The name may hold blanks and parentheses: the fields are counted from its end.
    const char* at = std::strrchr(text, ')');
    for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
    if (at != nullptr && std::strtoull(at, nullptr, 10) == std::strtoull(w[1], nullptr, 10))
        return permitted(answer, "it shows in /proc");
    say(answer, Outcome::Refused, true, "the number is another process's here");
}

/// Whether an object holds nothing that could be lost with its name: that is all an act ever makes.
bool holds_nothing(const struct stat& st)
{
    if (S_ISREG(st.st_mode)) return st.st_size == 0 || st.st_nlink > 1;
    return S_ISLNK(st.st_mode) || S_ISCHR(st.st_mode) ||
           S_ISDIR(st.st_mode); // rmdir itself asks for emptiness
}

/// The files of a directory that `work` made, and the directory.
void remove_work(int parent, const char* name)
{
    const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    for (const char* one : {"file", "other"}) {
        struct stat st{};
        if (::fstatat(fd, one, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) && st.st_size <= 5)
            ::unlinkat(fd, one, 0);
    }
    ::close(fd);
}

/// Removes what acts left in the directories: none of it, unless one was killed. Of this run all, of others
/// what has lain there for longer than a proof may last; never what is another's or holds something.
void sweep(const Words& w, Answer& answer)
{
    constexpr const char* kOurs = ".berth-probe-";
    char prefix[64];
    std::snprintf(prefix, sizeof prefix, "%s%s-", kOurs, token());
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    int removed = 0;
    for (int i = 0; i < w.count; ++i) {
        DIR* const dir = ::opendir(w[i]);
        if (dir == nullptr) continue;
        const int at = ::dirfd(dir);
        while (const dirent* entry = ::readdir(dir)) {
            const char* const name = entry->d_name;
            struct stat st{};
            if (std::strncmp(name, kOurs, std::strlen(kOurs)) != 0 ||
                ::fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !holds_nothing(st))
                continue;
            const bool this_run = std::strncmp(name, prefix, std::strlen(prefix)) == 0;
            if (!this_run && (st.st_uid != ::geteuid() || now.tv_sec - st.st_ctim.tv_sec < kForgotten))
                continue;
            if (S_ISDIR(st.st_mode)) remove_work(at, name);
            removed += ::unlinkat(at, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) == 0;
        }
        ::closedir(dir);
    }
    say(answer, Outcome::Permitted, true, "%d removed", removed);
}

constexpr Entry kEntries[] = {
    {"read", read_it},  {"hidden", hidden},   {"seen", seen},   {"descriptors", descriptors},
    {"masked", masked}, {"process", process}, {"sweep", sweep},
};

} // namespace

Entries file_acts() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

} // namespace prober
