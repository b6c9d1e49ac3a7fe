// Limits: a little must be possible, more than the limit must not. What was taken is given back at once.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "prober.hpp"

namespace prober {
namespace {

int wait_for_ever(void*)
{
    for (;;) ::syscall(SYS_pause);
}

/// Processes that share our memory: they cost the kernel's part alone.
void processes(const Words& w, Answer& answer)
{
    const long wanted = std::atol(w[0]);
    const bool mine = std::strcmp(w[1], "few") == 0;
    alignas(16) static char stack[4096];
    // All of them sleep in one call, on one stack that nobody returns from.
    long made = 0;
    int error = 0;
    while (made < wanted) {
        if (::clone(wait_for_ever, stack + sizeof stack, CLONE_VM | SIGCHLD, nullptr) < 0) {
            error = errno;
            break;
        }
        ++made;
    }
    ::signal(SIGTERM, SIG_IGN);
    ::kill(0, SIGTERM); // this act has a process group of its own; its children have the default action
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
    if (error == 0)
        say(answer, Outcome::Permitted, true, "%ld processes", made);
    else
        say(answer, Outcome::Refused, !mine, "after %ld: %s", made, ::strerrorname_np(error));
}

void memory(const Words& w, Answer& answer)
{
    const std::size_t wanted = std::strtoull(w[0], nullptr, 10);
    constexpr std::size_t step = 1 << 20;
    const pid_t child = ::fork();
    if (child < 0) return say(answer, Outcome::Unclear, false, "no process");
    if (child == 0) {
        // Whoever must die for it: this one. Its /proc is its own only while it can be looked at, so it
        // first lets go of everything that could be answered with.
        ::close_range(0, ~0U, 0);
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (fd >= 0) (void)!::write(fd, "1000", 4);
        for (std::size_t have = 0; have < wanted; have += step) {
            void* const part =
                ::mmap(nullptr, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (part == MAP_FAILED) ::_exit(1);
            std::memset(part, 1, step);
        }
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return say(answer, Outcome::Permitted, true, "%zu MiB", wanted >> 20);
    if (WIFSIGNALED(status))
        return say(answer, Outcome::Refused, true, "killed by signal %d", WTERMSIG(status));
    say(answer, Outcome::Refused, true, "ENOMEM");
}

void open_files(const Words& w, Answer& answer)
{
    const long wanted = std::atol(w[0]);
    for (long i = 0; i < wanted; ++i)
        if (::dup(0) < 0)
            return say(answer, Outcome::Refused, errno == EMFILE, "after %ld: %s", i,
                       ::strerrorname_np(errno));
    say(answer, Outcome::Permitted, true, "%ld descriptors", wanted);
}

/// Room is asked for, not filled: the file system answers for all of it at once.
void disk(const Words& w, Answer& answer)
{
    const unsigned long long wanted = std::strtoull(w[1], nullptr, 10);
    struct statvfs room{};
    if (::statvfs(w[0], &room) != 0) return untried(answer, "asking for its size", errno);
    if (std::strcmp(w[2], "few") != 0 && room.f_blocks * room.f_frsize <= wanted)
        return say(answer, Outcome::Refused, true, "the file system is no larger than %llu MiB",
                   static_cast<unsigned long long>(room.f_blocks) * room.f_frsize >> 20);
    // Without a wall it would be the machine's own disk that is filled.
    if (room.f_bavail * room.f_frsize / 2 < wanted && std::strcmp(w[2], "few") != 0)
        return untried(answer, "it might fill the disk", ENOSPC);
    const char* const name = scratch_name(w[0]);
    const int fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return untried(answer, "making a file", errno);
    ::unlink(name); // whoever is killed now leaves nothing
    const int error = ::fallocate(fd, 0, 0, static_cast<off_t>(wanted)) == 0 ? 0 : errno;
    ::close(fd);
    if (error == 0) return say(answer, Outcome::Permitted, true, "%llu MiB", wanted >> 20);
    refused(answer, "taking room", error, error == ENOSPC || error == EDQUOT);
}

double seconds(clockid_t clock)
{
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// As many processes as the limit has processors, and one more, turn for half a second; what they got is
/// counted.
void processors(const Words& w, Answer& answer)
{
    const double limit = std::atof(w[0]);
    const int workers = static_cast<int>(limit) + 1;
    const long there = ::sysconf(_SC_NPROCESSORS_ONLN);
    const double begun = seconds(CLOCK_MONOTONIC);
    constexpr double length = 0.6;
    for (int i = 0; i < workers; ++i)
        if (::fork() == 0) {
            while (seconds(CLOCK_MONOTONIC) - begun < length) {
            }
            ::_exit(0);
        }
    while (::wait(nullptr) > 0) {
    }
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    const double took = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                        static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    const double rate = took / (seconds(CLOCK_MONOTONIC) - begun);
    // One period of the scheduler at the start is not yet counted against anybody.
    if (rate > limit * 1.3 + 0.2) return say(answer, Outcome::Permitted, true, "%.2f processors", rate);
    say(answer, Outcome::Refused, static_cast<double>(there) > limit, "%.2f processors of %ld", rate, there);
}

constexpr Entry kEntries[] = {
    {"processes", processes}, {"memory", memory},         {"open-files", open_files},
    {"disk", disk},           {"processors", processors},
};

} // namespace

Entries limit_acts() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

} // namespace prober
