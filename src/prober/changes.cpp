// Changing: every way to write, move or reach around. Nothing that was there before is truncated, written
// over, moved or removed, not for a moment: whoever is killed here leaves at most something empty of his own.
// Whether a thing could be moved is asked by renaming it to its own name, which meets every wall and moves
// nothing.
//
// As an ordinary user an EACCES may be nothing but the owner's permissions. Calls that look at the mount
// before they look at permissions (removexattr of a name that is not there, mkdir) tell the two apart.

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "prober.hpp"

namespace prober {
namespace {

/// The refusal of a change to `path`, and whether only the wall explains it.
void refused_change(Answer& answer, const char* what, const char* path, int error)
{
    if (error == ENOENT) return say(answer, Outcome::Absent, false, "not there");
    if (names_a_mount(error) || ::geteuid() == 0) return refused(answer, what, error, true);
    ::removexattr(path, "user.berth.probe");
    if (errno == EROFS) return refused(answer, what, EROFS, true);
    struct stat st{};
    const bool mine = ::stat(path, &st) == 0 && st.st_uid == ::geteuid() && (st.st_mode & S_IWUSR) != 0;
    refused(answer, what, error, mine);
}

/// Makes a file in a directory and removes it again. 0, or the error.
int make_in(const char* dir)
{
    const char* const name = scratch_name(dir);
    const int fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    ::close(fd);
    ::unlink(name);
    return 0;
}

/// A file is opened for writing, in a directory one is made. 0, or the error.
int change_at(const char* path)
{
    if (is_directory(path)) return make_in(path);
    const int fd = ::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ETXTBSY ? 0 : errno; // it runs, or it would have been opened
    ::close(fd);
    return 0;
}

void write_it(const Words& w, Answer& answer)
{
    const int error = change_at(w[0]);
    if (error == 0) return permitted(answer, "opened for writing");
    refused_change(answer, "opening it to write", w[0], error);
}

/// A directory of its own, and an attribute: both ask the mount before anything else.
void create(const Words& w, Answer& answer)
{
    const char* const name = scratch_name(w[0]);
    if (::mkdir(name, 0700) == 0) {
        ::rmdir(name);
        return permitted(answer, "made a directory in it");
    }
    refused_change(answer, "making a directory in it", w[0], errno);
}

/// The directory a path lies in, held, and the last name of it; false: there is none.
struct Spot {
    int parent = -1;
    char above[4600];
    const char* name = nullptr;
};
bool find_spot(const char* path, Spot& out)
{
    std::snprintf(out.above, sizeof out.above, "%s", path);
    char* const slash = std::strrchr(out.above, '/');
    if (slash == nullptr || slash[1] == '\0') return false;
    out.name = path + (slash - out.above) + 1;
    slash[slash == out.above ? 1 : 0] = '\0';
    out.parent = ::open(out.above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return out.parent >= 0;
}

/// A name that is not there yet may not be made: nothing else has to be there, so another name in the same
/// place stands for it.
void make(const Words& w, Answer& answer)
{
    Spot spot;
    struct stat st{};
    if (!find_spot(w[0], spot)) return untried(answer, "opening the directory above", errno);
    if (::fstatat(spot.parent, spot.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return say(answer, Outcome::Absent, false, "it is there already");
    if (errno != ENOENT) return untried(answer, "looking for it", errno);
    const int error = make_in(spot.above);
    if (error == 0) return permitted(answer, "nothing keeps the name from being made");
    refused(answer, "making something beside it", error, names_a_mount(error) || ::geteuid() == 0);
}

/// The name itself, for a moment: where nobody else looks, and it is gone again.
void make_it(const Words& w, Answer& answer)
{
    struct stat st{};
    if (::lstat(w[0], &st) == 0) return say(answer, Outcome::Absent, false, "it is there already");
    if (::mkdir(w[0], 0700) != 0) return refused(answer, "making it", errno, true);
    ::rmdir(w[0]);
    permitted(answer, "made it");
}

enum class Root { Yes, No, Unknown };

/// Whether a mount begins at the name: the kernel moves and removes no such thing.
Root mount_root(const Spot& spot)
{
    struct statx st{};
    if (::syscall(SYS_statx, spot.parent, spot.name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE,
                  &st) != 0)
        return Root::Unknown;
    if ((st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0) return Root::Unknown;
    return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ? Root::Yes : Root::No;
}

/// A directory that others may write too lets only the owners of things and of itself move them.
bool sticky(const Spot& spot)
{
    struct stat above{};
    struct stat st{};
    if (::fstat(spot.parent, &above) != 0 || (above.st_mode & S_ISVTX) == 0) return false;
    if (::fstatat(spot.parent, spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0) return false;
    const auto me = ::geteuid();
    return me != 0 && st.st_uid != me && above.st_uid != me;
}

/// Whether it could be renamed, removed or replaced. Its own name as the new one: the mount is asked for
/// writing and Landlock for both names, then the kernel sees one and the same thing and is done. What it
/// would have asked after that is looked up: mount points, permissions.
void away(const Words& w, Answer& answer)
{
    Spot spot;
    struct stat st{};
    if (!find_spot(w[0], spot)) return say(answer, Outcome::Absent, false, "it lies in no directory");
    if (::fstatat(spot.parent, spot.name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return say(answer, Outcome::Absent, false, "not there");
    if (::renameat2(spot.parent, spot.name, spot.parent, spot.name, 0) != 0)
        return refused_change(answer, "renaming it", w[0], errno);
    switch (mount_root(spot)) {
    case Root::Yes: return say(answer, Outcome::Refused, true, "a mount point is never renamed");
    case Root::Unknown:
        return say(answer, Outcome::Unclear, false, "the kernel does not tell its mount points");
    case Root::No: break;
    }
    if (::faccessat(spot.parent, ".", W_OK | X_OK, AT_EACCESS) != 0)
        return refused_change(answer, "writing to where it lies", spot.above, errno);
    if (sticky(spot)) return refused(answer, "moving what another owns", EPERM, false);
    permitted(answer, "nothing keeps it from being renamed");
}

/// The path itself, or the first plain file of a directory.
const char* some_file(const char* path)
{
    if (!is_directory(path)) return path;
    DIR* const dir = ::opendir(path);
    const char* found = nullptr;
    while (dir != nullptr && found == nullptr) {
        const dirent* const entry = ::readdir(dir);
        if (entry == nullptr) break;
        if (entry->d_type == DT_REG) found = joined(joined(path, "/"), entry->d_name);
    }
    if (dir != nullptr) ::closedir(dir);
    return found;
}

/// Into a directory that may be written, and there opened for writing.
void hard_link(const Words& w, Answer& answer)
{
    const char* const file = some_file(w[0]);
    if (file == nullptr) return say(answer, Outcome::Absent, false, "no plain file in it");
    const char* const name = scratch_name(w[1]);
    if (::link(file, name) != 0) {
        const int error = errno;
        struct stat st{};
        if (::lstat(file, &st) != 0) return say(answer, Outcome::Absent, false, "not there");
        if (error == ENOENT) return untried(answer, "making a link", error);
        if (error == EOVERFLOW || error == ENOSPC || error == EDQUOT)
            return untried(answer, "making a link", error);
        return refused(answer, "linking it into a writable place", error,
                       names_a_mount(error) || ::geteuid() == 0);
    }
    const int fd = ::open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    const int error = errno;
    if (fd >= 0) ::close(fd);
    ::unlink(name);
    if (fd >= 0) return permitted(answer, "opened for writing by another name");
    refused(answer, "opening it by another name", error, false);
}

void through_link(const Words& w, Answer& answer)
{
    const char* const name = scratch_name(w[1]);
    if (::symlink(w[0], name) != 0) return untried(answer, "making a link", errno);
    const int error = change_at(name);
    ::unlink(name);
    if (error == 0) return permitted(answer, "changed through a link");
    refused_change(answer, "changing it through a link", w[0], error);
}

void by_proc(const Words& w, Answer& answer)
{
    int last = ENOENT;
    for (const char* way : {"/proc/self/root", "/proc/1/root", "/proc/thread-self/root"}) {
        const int error = change_at(joined(way, w[0]));
        if (error == 0) return say(answer, Outcome::Permitted, true, "changed by way of %s", way);
        if (error != ENOENT && error != EACCES) last = error;
        if (last == ENOENT) last = error;
    }
    refused_change(answer, "changing it by way of /proc/*/root", w[0], last);
}

/// A descriptor for reading is opened again for writing.
void reopen(const Words& w, Answer& answer)
{
    const int fd = ::open(w[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return say(answer, Outcome::Absent, false, "not there");
    if (fd < 0) return untried(answer, "opening it to read", errno);
    char link[64];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const int error = change_at(link);
    ::close(fd);
    if (error == 0) return permitted(answer, "changed through a descriptor");
    refused_change(answer, "changing it through a descriptor", w[0], error);
}

/// A copy of the mount that is attached nowhere: it is locked as the original is, and gone with its
/// descriptor.
void remount(const Words& w, Answer& answer)
{
    const long copy =
        ::syscall(SYS_open_tree, AT_FDCWD, w[0], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (copy < 0 && errno == EPERM) return refused(answer, "copying its mount", errno, true);
    if (copy < 0 && errno == ENOSYS) {
        // The older call, where no mount begins: asked for the right to mount first, and then of no effect.
        if (::syscall(SYS_mount, nullptr, "/proc/self/fd", nullptr, MS_REMOUNT | MS_BIND, nullptr) != 0 &&
            (errno == EPERM || errno == ENOSYS))
            return refused(answer, "remounting", errno, true);
        return say(answer, Outcome::Unclear, false, "mounting is allowed, and a copy cannot be made");
    }
    if (copy < 0)
        return say(answer, Outcome::Unclear, false, "copying its mount: %s", ::strerrorname_np(errno));
    mount_attr writable{};
    writable.attr_clr = MOUNT_ATTR_RDONLY;
    const bool done = ::syscall(SYS_mount_setattr, copy, "", AT_EMPTY_PATH, &writable, sizeof writable) == 0;
    const int error = errno;
    ::close(static_cast<int>(copy));
    if (done) return permitted(answer, "made a copy of its mount writable");
    if (error == EPERM) return refused(answer, "making a copy of its mount writable", error, true);
    say(answer, Outcome::Unclear, false, "making a copy of its mount writable: %s", ::strerrorname_np(error));
}

/// What a program does all day. Must be possible where writing is granted.
void work(const Words& w, Answer& answer)
{
    const char* const dir = scratch_name(w[0]);
    char file[4700];
    char other[4700];
    std::snprintf(file, sizeof file, "%s/file", dir);
    std::snprintf(other, sizeof other, "%s/other", dir);
    const char* step = "making a directory";
    bool good = ::mkdir(dir, 0700) == 0;
    int error = errno;
    const auto then = [&](const char* what, bool done) {
        if (!good) return;
        step = what;
        good = done;
        error = errno;
    };
    if (good) {
        const int fd = ::open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        char text[5] = {};
        then("making a file", fd >= 0);
        if (good) then("writing", ::write(fd, "berth", 5) == 5);
        if (good) then("reading back", ::pread(fd, text, 5, 0) == 5 && std::memcmp(text, "berth", 5) == 0);
        if (fd >= 0) ::close(fd);
        if (good) then("renaming", ::rename(file, other) == 0);
        if (good) then("linking", ::symlink("other", file) == 0);
        if (good) then("changing the mode", ::chmod(other, 0644) == 0);
        if (good) then("removing", ::unlink(file) == 0 && ::unlink(other) == 0);
        ::unlink(file);
        ::unlink(other);
        if (::rmdir(dir) != 0) then("removing the directory", false);
    }
    if (good) return permitted(answer, "made, wrote, read, renamed, linked and removed");
    refused(answer, step, error, false);
}

/// The first protected name that lies deeper than at the top: nothing may be made in it, or written.
void deep(const Words& w, Answer& answer)
{
    struct Level {
        DIR* dir;
        std::size_t length;
    };
    static Level levels[6];
    static char path[4600];
    int depth = 0;
    int looked = 0;
    std::snprintf(path, sizeof path, "%s", w[0]);
    levels[0] = {::opendir(path), std::strlen(path)};
    while (depth >= 0 && looked < 20000) {
        Level& level = levels[depth];
        const dirent* const entry = level.dir == nullptr ? nullptr : ::readdir(level.dir);
        if (entry == nullptr) {
            if (level.dir != nullptr) ::closedir(level.dir);
            --depth;
            continue;
        }
        if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
        ++looked;
        std::snprintf(path + level.length, sizeof path - level.length, "/%s", entry->d_name);
        bool named = false;
        for (int i = 1; i < w.count; ++i) named = named || std::strcmp(w[i], entry->d_name) == 0;
        if (named && depth > 0) {
            const int error = change_at(path);
            if (error == 0) return say(answer, Outcome::Permitted, true, "changed %.150s", path);
            return refused_change(answer, "changing what is there", path, error);
        }
        if (!named && entry->d_type == DT_DIR && depth + 1 < 6) {
            levels[depth + 1] = {::opendir(path), std::strlen(path)};
            ++depth;
        }
    }
    say(answer, Outcome::Absent, false, "none lies deeper");
}

constexpr Entry kEntries[] = {
    {"write", write_it},      {"create", create},     {"make", make},       {"away", away},
    {"hard-link", hard_link}, {"link", through_link}, {"by-proc", by_proc}, {"reopen", reopen},
    {"remount", remount},     {"work", work},         {"deep", deep},       {"make-it", make_it},
};

} // namespace

Entries change_acts() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

} // namespace prober
