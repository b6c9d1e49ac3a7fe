// Attempts on other processes and on the own privileges.

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "probe.hpp"

namespace probe {
namespace {

pid_t pid_of(const Words& w) { return static_cast<pid_t>(std::stol(w.at(0))); }

int send_signal(const Words& w) { return outcome(::kill(pid_of(w), std::stoi(w.at(1)))); }

int attach(const Words& w)
{
    if (::ptrace(PTRACE_SEIZE, pid_of(w), nullptr, nullptr) < 0) return errno;
    ::ptrace(PTRACE_DETACH, pid_of(w), nullptr, nullptr);
    return 0;
}

/// What a debugger does: stops a child of its own and reads its memory.
int debug_child(const Words&)
{
    static volatile long word = 4711;
    const pid_t child = ::fork();
    if (child < 0) return errno;
    if (child == 0) {
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        word = 1147;
        ::raise(SIGSTOP);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    errno = 0;
    const long seen = ::ptrace(PTRACE_PEEKDATA, child, const_cast<long*>(&word), nullptr);
    const int error = errno;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return error != 0 ? error : seen == 1147 ? 0 : EIO;
}

int read_memory(const Words& w)
{
    char byte = 0;
    iovec local{&byte, 1};
    iovec remote{reinterpret_cast<void*>(0x400000), 1};
    return outcome(::process_vm_readv(pid_of(w), &local, 1, &remote, 1, 0));
}

int compare(const Words& w) { return outcome(::syscall(SYS_kcmp, ::getpid(), pid_of(w), 0, 0, 0)); }

int take_descriptor(const Words& w)
{
    const long pidfd = ::syscall(SYS_pidfd_open, pid_of(w), 0);
    return pidfd < 0 ? errno : outcome(::syscall(SYS_pidfd_getfd, pidfd, std::stoi(w.at(1)), 0));
}

int set_user(const Words& w) { return outcome(::setresuid(std::stoul(w.at(0)), -1, -1)); }
int set_groups(const Words&)
{
    const gid_t group = 0;
    return outcome(::setgroups(1, &group));
}

int status_line(const Words& w)
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(w.at(0) + ":\t")) return say(line.substr(w.at(0).size() + 2));
    return ENOENT;
}

int effective_user(const Words&) { return say(std::to_string(::geteuid())); }

int limit(const Words& w)
{
    rlimit now{};
    ::getrlimit(w.at(0) == "processes" ? RLIMIT_NPROC
                : w.at(0) == "files"   ? RLIMIT_NOFILE
                                       : RLIMIT_CORE,
                &now);
    return say(std::to_string(now.rlim_max));
}

int raise_limit(const Words&)
{
    rlimit now{};
    ::getrlimit(RLIMIT_NPROC, &now);
    now.rlim_cur = now.rlim_max = now.rlim_max + 1;
    return outcome(::setrlimit(RLIMIT_NPROC, &now));
}

int host_name(const Words& w) { return outcome(::sethostname(w.at(0).data(), w.at(0).size())); }
int domain_name(const Words& w) { return outcome(::setdomainname(w.at(0).data(), w.at(0).size())); }
int priority(const Words&) { return outcome(::setpriority(PRIO_PROCESS, 0, -20)); }

/// What `script` does: a terminal of its own, and a line through it.
int terminal(const Words&)
{
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return errno;
    char name[64];
    if (::ptsname_r(master, name, sizeof name) != 0) return errno;
    const pid_t child = ::fork();
    if (child == 0) {
        ::setsid();
        const int slave = ::open(name, O_RDWR);
        if (slave >= 0) (void)!::write(slave, "line\n", 5);
        ::_exit(slave < 0 ? errno : 0);
    }
    char text[16] = {};
    (void)!::read(master, text, sizeof text - 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 0) return WEXITSTATUS(status);
    return std::strncmp(text, "line", 4) == 0 ? 0 : EIO;
}

/// Leaves a process behind that nobody waits for, in a session of its own.
int daemon(const Words& w)
{
    const pid_t child = ::fork();
    if (child < 0) return errno;
    if (child == 0) {
        ::setsid();
        if (::fork() != 0) ::_exit(0);
        // Its name is how the outside looks for it; its output would keep the pipe open.
        for (int fd = 0; fd < 3; ++fd) ::close(fd);
        ::execl("/probe", w.at(0).c_str(), "wait", nullptr);
        ::_exit(1);
    }
    ::waitpid(child, nullptr, 0);
    return 0;
}

int wait_for_ever(const Words&)
{
    for (;;) ::pause();
}

constexpr Entry kEntries[] = {
    {"kill", send_signal},
    {"attach", attach},
    {"debug-child", debug_child},
    {"read-memory", read_memory},
    {"compare", compare},
    {"take-descriptor", take_descriptor},
    {"set-user", set_user},
    {"set-groups", set_groups},
    {"status", status_line},
    {"effective-user", effective_user},
    {"limit", limit},
    {"raise-limit", raise_limit},
    {"host-name", host_name},
    {"domain-name", domain_name},
    {"priority", priority},
    {"terminal", terminal},
    {"daemon", daemon},
    {"wait", wait_for_ever},
};

} // namespace

std::span<const Entry> process_probes() { return kEntries; }

} // namespace probe
