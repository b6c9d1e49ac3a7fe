#pragma once

#include <limits.h>
#include <linux/seccomp.h>
#include <sys/stat.h>

#include <cstdint>
#include <string_view>

#include "supervisor/fd.hpp"
#include "supervisor/wire.hpp"

/// The supervisor of commands with deny patterns. It stands in their namespaces, outside of their filter, and
/// carries out in their place each call that takes a path: on descriptors of its own, after a look at what
/// they really are. An answer below zero is a negative errno.
namespace berth::supervisor {

// rules.cpp
/// False: the config is none of ours.
bool read_rules(Config* config);
[[nodiscard]] Config& config();
/// Where the one command may lie; null behind the last.
[[nodiscard]] const char* program(std::size_t i);
/// Whether a pattern matches the path or a directory above it.
[[nodiscard]] bool denied(std::string_view path);
/// Whether everything below `from` that a pattern denies would be denied below `to`, too.
[[nodiscard]] bool keeps_denied(std::string_view from, std::string_view to);
/// Counts, and is the answer.
long refuse();

/// One call of one thread, which waits for an answer.
struct Call {
    int listener;
    const seccomp_notif* asked;

    [[nodiscard]] std::uint64_t arg(unsigned i) const { return asked->data.args[i]; }
    [[nodiscard]] int word(unsigned i) const { return static_cast<int>(asked->data.args[i]); }
    [[nodiscard]] pid_t thread() const { return static_cast<pid_t>(asked->pid); }
    /// The thread is still the one that asked: its number was not given to another one.
    [[nodiscard]] bool valid() const;
    void answer(long value) const;
    /// The descriptor becomes the caller's, and its number the answer.
    void inject(int fd, int flags) const;
};

// target.cpp: what only the caller has. All of it is asked for before `valid` is.
struct Status {
    pid_t process = 0;
    unsigned umask = 022;
    std::uint64_t interrupting = 0; ///< signals that wait to be handled
};
bool read_status(pid_t thread, Status& out);
/// At least one byte. ENAMETOOLONG beyond PATH_MAX.
long read_text(const Call& call, std::uint64_t address, char (&out)[PATH_MAX]);
long read_bytes(const Call& call, std::uint64_t address, void* out, std::size_t size);
/// Where a relative path begins: a copy, for its path alone. Nothing for an absolute one.
long read_base(const Call& call, int dirfd, const char* path, Fd& out);
/// The umask of the caller becomes ours.
long take_umask(const Call& call);
/// Whoever called is who acts from here on, with what it may do and no more.
long act_as(const Call& call);
/// May look at other processes, stop and end them; `lower` gives it up again.
void raise_powers();
void lower_powers();

/// Something that exists, held for its path.
struct Object {
    Fd fd;
    struct stat st{};
    char real[PATH_MAX] = {}; ///< where it is, as the kernel names it; no slash first: nowhere

    [[nodiscard]] bool is_denied() const;
};
/// A name in a directory, whether or not there is anything.
struct Spot {
    Object parent;
    char name[NAME_MAX + 2] = {}; ///< with a slash at its end where the caller gave one
    char real[PATH_MAX] = {};

    [[nodiscard]] bool is_denied() const { return denied(real); }
};
enum class Last { Follow, Keep };

// resolve.cpp
void find_proc();
long resolve(const Call& call, int base, const char* path, Last last, Object& out);
long resolve_spot(const Call& call, int base, const char* path, Spot& out);
/// Fills in the rest of an object whose descriptor is there.
long look(Object& out);
/// Whether the path as it was written is denied, whatever lies there.
bool spelled_denied(int base, const char* path);
/// "/proc/self/fd/N"
struct Link {
    char text[32];
    explicit Link(int fd);
};

// open.cpp, names.cpp, attributes.cpp, execute.cpp: each answers, or has answered when it returns kAnswered.
constexpr long kAnswered = 1L << 40;
long open_file(const Call& call, int dirfd, std::uint64_t path, int flags, unsigned mode);
/// How many opens wait on threads of their own.
int waiters();
/// Ends those that wait for a caller that is gone, or that a signal waits for. How many are left.
int tend_waiters(int listener);
long change_names(const Call& call);
long change_attributes(const Call& call);
long execute(const Call& call);

// become.cpp
/// COUNT PATH... ARGUMENT...: the first of the paths that there is becomes this process.
int become(int argc, char** argv, char** environment);

} // namespace berth::supervisor
