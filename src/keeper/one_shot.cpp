// pid 1 of a one-shot sandbox: starts the command, passes signals on, reaps orphans, tells the
// launcher what waitid said, and ends; the kernel then kills what is left. Of a command without a
// sandbox it is the parent that orphans come to, and kills them itself.
//
// Descriptors from 4 on that were inherited (a lock on the range of ids) stay open as long as this
// process lives; the command never sees them. The parent-death signal that the launcher set
// survives its execve and is left alone.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "keeper/modes.hpp"
#include "keeper/spawn.hpp"
#include "keeper/terminal.hpp"
#include "keeper/wire_program.hpp"

namespace berth::keeper {
namespace {

constexpr int kLauncher = 3;

Launch launch;

void tell(const Report& report, int descriptor)
{
    iovec data{const_cast<Report*>(&report), sizeof report};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr h{};
    h.msg_iov = &data;
    h.msg_iovlen = 1;
    if (descriptor >= 0) {
        h.msg_control = control;
        h.msg_controllen = sizeof control;
        auto* c = reinterpret_cast<cmsghdr*>(control);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof descriptor);
        __builtin_memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
    }
    call(SYS_sendmsg, kLauncher, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int failed(Step step, long error)
{
    const int number = static_cast<int>(error < 0 ? -error : error);
    tell({ReportKind::Failed, step, number, 0}, -1);
    return exit_code_of_failure(step, number);
}

/// Reaps whoever died; true when it was the command.
bool reap_until(int command, int& status)
{
    for (;;) {
        int how = 0;
        const long pid = call(SYS_wait4, -1, &how, WNOHANG, nullptr);
        if (pid <= 0) return false;
        if (pid == command) {
            status = how;
            return true;
        }
    }
}

/// SIGKILL to every child; how many may be killed. Others have become another user's.
int kill_children()
{
    const long list = call(SYS_open, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (list < 0) return 0;
    char text[4096];
    const long n = call(SYS_read, list, text, sizeof text);
    call(SYS_close, list);
    int killed = 0;
    int pid = 0;
    for (long i = 0; i < n; ++i) {
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
            continue;
        }
        if (pid > 1 && call(SYS_kill, pid, SIGKILL) == 0) ++killed;
        pid = 0;
    }
    return killed;
}

/// Kills the command and all it has started: the children of each that dies come to us. Says when it has
/// reaped the command.
bool end_all(int command, int& status)
{
    bool found = false;
    for (;;) {
        int how = 0;
        long pid = call(SYS_wait4, -1, &how, WNOHANG, nullptr);
        if (pid == 0 && kill_children() > 0) pid = call(SYS_wait4, -1, &how, 0, nullptr);
        if (pid <= 0) return found;
        if (pid != command) continue;
        status = how;
        found = true;
    }
}

/// Nothing is left of the blocks or the inodes of the file system that everything is written to. The
/// kernel does not count refusals, so a disk that was full for a moment only is not noticed.
bool disk_full()
{
    struct statfs fs{};
    if (call(SYS_statfs, "/", &fs) < 0) return false;
    return (fs.f_blocks > 0 && fs.f_bavail == 0) || (fs.f_files > 0 && fs.f_ffree == 0);
}

/// A command with a group of its own gets signals as a terminal would send them: to the group, or
/// a shell would wait for its child before it dies. One that shares our session has already got
/// what the terminal (the kernel) sent; only what a process sent to us is passed on, to it alone.
void forward(int command, const siginfo_t& info, bool own_group)
{
    if (info.si_signo == SIGPIPE || info.si_signo == SIGXFSZ) return; // of our own writes
    if (!own_group && info.si_code > 0) return;
    call(SYS_kill, own_group ? -command : command, info.si_signo);
}

} // namespace

int run_once(int argc, char** argv, char** envp)
{
    harden();
    u64 flags = 0, uid = 0, gid = 0;
    if (argc < 6 || !parse_number(argv[1], flags) || !parse_number(argv[2], uid) ||
        !parse_number(argv[3], gid) || uid >= ~0u || gid >= ~0u)
        return failed(Step::Request, EINVAL);
    const bool terminal = flags & kOneShotTerminal;
    const bool named = flags & kOneShotNamed;
    if (named && argc < 7) return failed(Step::Request, EINVAL);
    const bool own_group = terminal || (flags & kOneShotNewSession);
    const bool gather = flags & kOneShotGather;
    if (gather) call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    launch.cwd = argv[4];
    launch.argv = argv + 5;
    launch.named = named;
    launch.envp = envp;
    launch.input = 0;
    launch.output = 1;
    launch.error = 2;
    launch.session = own_group;
    launch.terminal = terminal;
    launch.uid = static_cast<std::uint32_t>(uid);
    launch.gid = static_cast<std::uint32_t>(gid);
    launch.birth_group = launch.program = -1;
    launch.open_files = launch.processes = launch.file_size = launch.cpu_seconds = kKeepLimit;
    launch.nofile_soft = kKeepLimit;

    int slave = -1;
    if (terminal) {
        int master = -1;
        const auto rows = static_cast<std::uint16_t>(flags >> 16);
        const auto columns = static_cast<std::uint16_t>(flags >> 32);
        if (const long bad = open_terminal(rows, columns, launch.uid, master, slave); bad < 0)
            return failed(Step::Terminal, bad);
        // The launcher relays it without polling first: a blocking master is what it expects.
        call(SYS_fcntl, master, F_SETFL, O_RDWR);
        tell({ReportKind::Terminal, Step::None, 0, 0}, master);
        close_fd(master);
        launch.input = launch.output = launch.error = slave;
    }
    const long pid = spawn(launch);
    if (pid < 0) return failed(Step::Clone, pid);
    wait_for_exec(launch, ~u64{0});
    if (launch.failed_step != Step::None) return failed(launch.failed_step, launch.failed_error);
    if (flags & kOneShotTellStart) tell({ReportKind::Started, Step::None, 0, 0}, -1);
    // Ours would keep the pipes open that the launcher reads to their end.
    close_fd(slave);
    for (int fd = 0; fd < 3; ++fd) call(SYS_close, fd);

    const u64 all = ~u64{0};
    const int command = static_cast<int>(pid);
    for (;;) {
        siginfo_t info{};
        const long signal = call(SYS_rt_sigtimedwait, &all, &info, nullptr, 8);
        int status = 0;
        const bool end = gather && signal == kEndAll;
        if (end) call(SYS_kill, -command, SIGKILL); // not reaped yet: the number is still its own
        if (signal == SIGCHLD || end) {
            if (end ? !end_all(command, status) : !reap_until(command, status)) continue;
            tell({ReportKind::Ended, Step::None, disk_full() ? ENOSPC : 0, status}, -1);
            int ignored = 0;
            if (gather) end_all(command, ignored);
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
        if (signal > 0) forward(command, info, own_group);
    }
}

} // namespace berth::keeper
