// What a deny pattern names. The proof has put a file there from outside, under a name of ours; nothing but
// such names is ever touched.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "prober.hpp"

namespace prober {
namespace {

constexpr const char* kOurs = "/.berth-probe-";

bool is_ours(const char* path, Answer& answer)
{
    if (std::strstr(path, kOurs) != nullptr) return true;
    say(answer, Outcome::Untried, false, "no name of ours");
    return false;
}

/// Whether the file shows its word; else the error.
int read_word(const char* path, const char* word)
{
    const int fd = ::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno;
    char text[256] = {};
    const ssize_t n = ::read(fd, text, sizeof text - 1);
    const int error = errno;
    ::close(fd);
    if (n < 0) return error;
    return std::strstr(text, word) != nullptr ? 0 : ENODATA;
}

/// An empty file beside it; null: it cannot be made.
const char* make_beside(const char* dir)
{
    const char* const name = scratch_name(dir);
    const int fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return nullptr;
    ::close(fd);
    return name;
}

/// Nothing but the wall explains it: its permissions would let us.
bool open_to_us(const char* path)
{
    struct stat st{};
    if (::stat(path, &st) != 0) return false;
    return ::geteuid() == 0 || (st.st_mode & S_IROTH) != 0 || st.st_uid == ::geteuid();
}

/// Somebody else has put it there since the sandbox began: PATH, WORD.
void read_match(const Words& w, Answer& answer)
{
    const char* const ways[] = {"", "/proc/self/root", "/proc/thread-self/root", "/proc/1/root"};
    int last = ENOENT;
    for (const char* way : ways) {
        const int error = read_word(joined(way, w[0]), w[1]);
        if (error == 0) return say(answer, Outcome::Permitted, true, "read by way of %s/", way);
        if (*way == '\0' && error == ENOENT) return say(answer, Outcome::Absent, false, "not there");
        if (*way == '\0') last = error;
    }
    refused(answer, "opening it in four ways", last, open_to_us(w[0]));
}

/// PATH, a directory BESIDE: made as a file and as a directory.
void make_match(const Words& w, Answer& answer)
{
    if (!is_ours(w[0], answer)) return;
    const int fd = ::open(w[0], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
        ::unlink(w[0]);
        return permitted(answer, "made");
    }
    if (error == ENOENT) return untried(answer, "looking for its directory", error);
    if (::mkdir(w[0], 0700) == 0) {
        ::rmdir(w[0]);
        return permitted(answer, "made as a directory");
    }
    const char* const other = make_beside(w[1]);
    if (other != nullptr) ::unlink(other);
    refused(answer, "making it", error, other != nullptr);
}

/// Something of ours gets the name: PATH, BESIDE.
void rename_into(const Words& w, Answer& answer)
{
    if (!is_ours(w[0], answer)) return;
    const char* const from = make_beside(w[1]);
    if (from == nullptr) return untried(answer, "making something to rename", errno);
    const bool done = ::rename(from, w[0]) == 0;
    int error = errno;
    const bool linked = !done && ::link(from, w[0]) == 0;
    if (done || linked) ::unlink(w[0]);
    ::unlink(from);
    if (done) return permitted(answer, "renamed to it");
    if (linked) return permitted(answer, "linked to it");
    if (error == ENOENT) return untried(answer, "looking for its directory", error);
    refused(answer, "renaming something to it", error, true);
}

/// It gets another name: PATH, BESIDE.
void rename_away(const Words& w, Answer& answer)
{
    if (!is_ours(w[0], answer)) return;
    const char* const to = scratch_name(w[1]);
    if (::rename(w[0], to) == 0) {
        ::rename(to, w[0]);
        return permitted(answer, "renamed");
    }
    if (errno == ENOENT) return say(answer, Outcome::Absent, false, "not there");
    refused(answer, "renaming it", errno, true);
}

/// The same by a link: PATH, BESIDE, WORD.
void hard_link(const Words& w, Answer& answer)
{
    if (!is_ours(w[0], answer)) return;
    const char* const name = scratch_name(w[1]);
    if (::link(w[0], name) != 0) {
        if (errno == ENOENT) return say(answer, Outcome::Absent, false, "not there");
        return refused(answer, "linking it", errno, open_to_us(w[0]));
    }
    const int error = read_word(name, w[2]);
    ::unlink(name);
    if (error == 0) return permitted(answer, "read by another name");
    refused(answer, "reading it by another name", error, true);
}

void symbolic_link(const Words& w, Answer& answer)
{
    const char* const name = scratch_name(w[1]);
    if (::symlink(w[0], name) != 0) return untried(answer, "making a link", errno);
    const int error = read_word(name, w[2]);
    ::unlink(name);
    if (error == 0) return permitted(answer, "read through a link");
    if (error == ENOENT) return say(answer, Outcome::Absent, false, "not there");
    refused(answer, "reading it through a link", error, open_to_us(w[0]));
}

constexpr Entry kEntries[] = {
    {"match-read", read_match},  {"match-make", make_match}, {"match-into", rename_into},
    {"match-away", rename_away}, {"match-link", hard_link},  {"match-symlink", symbolic_link},
};

} // namespace

Entries pattern_acts() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

} // namespace prober
