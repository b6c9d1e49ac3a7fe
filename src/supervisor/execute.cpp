// Executing. Only the caller itself can, and the path stands in memory that others can change. So what we
// find at the path decides about a polite refusal, and what the kernel has really taken decides: the caller
// is stopped before the first instruction of its new program, and ended if any part of that is denied.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

/// A newline in a name is told as four characters, which may also be the name's own: one reading is enough.
bool either_denied(const char* file)
{
    Object object;
    if (strlen(file) >= sizeof object.real) return true;
    strcpy(object.real, file);
    if (object.is_denied()) return true;
    if (strstr(file, "\\012") == nullptr) return false;
    char* to = object.real;
    for (const char* from = file; *from != 0;) {
        const bool newline = strncmp(from, "\\012", 4) == 0;
        *to++ = newline ? '\n' : *from;
        from += newline ? 4 : 1;
    }
    *to = 0;
    return object.is_denied();
}

/// The program and whatever loads it, as mapped in the process that is stopped.
bool runs_denied(pid_t process)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE* const maps = fopen(path, "re");
    if (maps == nullptr) return true;
    static char line[2 * PATH_MAX];
    bool found = false;
    bool any = false;
    while (!found && fgets(line, sizeof line, maps) != nullptr) {
        line[strcspn(line, "\n")] = 0;
        const char* const file = strchr(line, '/');
        if (file == nullptr) continue;
        any = true;
        found = either_denied(file);
    }
    fclose(maps);
    Object program;
    snprintf(path, sizeof path, "/proc/%d/exe", process);
    program.fd.reset(::open(path, O_PATH | O_CLOEXEC));
    return found || !any || !program.fd || look(program) < 0 || program.is_denied();
}

/// From here on until it is let go, nothing of it runs without us.
void watch(const Call& call)
{
    ::ptrace(PTRACE_INTERRUPT, call.thread(), 0, 0);
    for (;;) {
        int status = 0;
        const pid_t who = ::waitpid(-1, &status, __WALL);
        if (who < 0 && errno == EINTR) continue;
        if (who < 0 || !WIFSTOPPED(status)) return; // it has ended
        const int event = status >> 16;
        if (event == PTRACE_EVENT_EXEC && runs_denied(who)) {
            (void)refuse();
            ::kill(who, SIGKILL);
            ::ptrace(PTRACE_CONT, who, 0, 0);
            continue; // until it has ended
        }
        // Executed, or failed to: either way it is at its own again.
        ::ptrace(PTRACE_DETACH, who, 0, event == 0 ? WSTOPSIG(status) : 0);
        return;
    }
}

/// A child of the sandbox's first process that is still its program: its memory and descriptors are nobody
/// else's, so what it says is what it does.
bool is_first_program(const Call& call)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/exe", call.thread());
    struct stat first{};
    struct stat its{};
    raise_powers();
    const bool both = ::stat("/proc/1/exe", &first) == 0 && ::stat(path, &its) == 0;
    lower_powers();
    return both && first.st_dev == its.st_dev && first.st_ino == its.st_ino && call.valid();
}

/// What the command would fail with, while its launcher can still be told. Who executes looks again.
long find_program(const Call& call)
{
    long answer = -ENOENT;
    for (std::size_t i = 0; program(i) != nullptr; ++i) {
        Object object;
        if (denied(program(i))) {
            answer = refuse();
            continue;
        }
        long r = resolve(call, AT_FDCWD, program(i), Last::Follow, object);
        if (r == 0 && !object.is_denied()) return 0;
        if (r == 0) r = refuse();
        if (r != -ENOENT && r != -ENOTDIR) answer = r;
    }
    return answer;
}

void go_on(const Call& call)
{
    seccomp_notif_resp response{};
    response.id = call.asked->id;
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ::ioctl(call.listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

} // namespace

long execute(const Call& call)
{
    const bool at = call.asked->data.nr == SYS_execveat;
    // The sandbox's first process, or the one command's, becomes what its launcher gave it: nothing of the
    // sandbox runs under the filter yet.
    static bool first = true;
    const bool one_command = config().one_command != 0;
    if (first) {
        if (!at || (!one_command && call.thread() != 1)) return -EPERM;
        if (one_command)
            if (const long r = find_program(call); r < 0) return r;
        first = false;
        go_on(call);
        return kAnswered;
    }
    const int dirfd = at ? call.word(0) : AT_FDCWD;
    const int flags = at ? call.word(4) : 0;
    char path[PATH_MAX];
    Fd base;
    Object object;
    if (const long r = read_text(call, call.arg(at ? 1 : 0), path); r < 0) return r;
    if (path[0] == 0 && (flags & AT_EMPTY_PATH) == 0) return -ENOENT;
    if (const long r = read_base(call, dirfd, path, base); r < 0) return r;
    if (path[0] == 0) {
        object.fd = static_cast<Fd&&>(base);
        if (const long r = look(object); r < 0) return r;
    } else {
        const Last last = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Last::Keep : Last::Follow;
        if (const long r = resolve(call, base.get(), path, last, object); r < 0) return r;
        if (spelled_denied(base.get(), path)) return refuse();
    }
    if (object.is_denied()) return refuse();
    if (!one_command && path[0] == 0 && is_first_program(call)) {
        go_on(call); // a program that was handed in, perhaps one that nobody may look into
        return kAnswered;
    }

    raise_powers();
    long answer = kAnswered;
    if (::ptrace(PTRACE_SEIZE, call.thread(), 0, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0) {
        answer = errno == ESRCH ? -ESRCH : -EPERM; // a debugger has it: nobody could look
    } else {
        go_on(call);
        watch(call);
    }
    lower_powers();
    return answer;
}

} // namespace berth::supervisor
