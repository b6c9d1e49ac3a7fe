// The child half: from clone to execve, sharing our memory (no page tables are copied).
//
// CLONE_VFORK would suspend the keeper until the execve, and a process that is frozen, or stopped
// by another one inside, would hold the keeper for ever. So the child is cloned without it, and
// the wait is on the word that the kernel clears when a process leaves a shared memory
// (CLONE_CHILD_CLEARTID): the same moment, but with a time-out.
//
// For a moment the child has the user's uid and our memory. The memory is marked non-dumpable,
// so no process of that user can trace it or open its /proc/PID/mem.

#include "keeper/spawn.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

namespace berth::keeper {
namespace {

alignas(16) char child_stack[16384];

// The keeper's own filter lets clone3 through when it must place execs in a v2 group; nothing
// else inside may have it, because a filter cannot look at its flags.
const sock_filter hide_clone3[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int fail(Launch& l, Step step, long error)
{
    l.failed_error = static_cast<int>(-error);
    l.failed_step = step;
    return exit_code_of_failure(step, l.failed_error);
}

long set_limit(int resource, u64 soft, u64 hard)
{
    rlimit now{};
    if (const long r = call(SYS_prlimit64, 0, resource, nullptr, &now); r < 0) return r;
    // Raising a hard limit needs a capability nobody here has: the present one is the ceiling.
    const rlimit wanted{soft < now.rlim_max ? soft : now.rlim_max, hard < now.rlim_max ? hard : now.rlim_max};
    return call(SYS_prlimit64, 0, resource, &wanted, nullptr);
}

long set_limits(const Launch& l)
{
    long r = 0;
    if (l.open_files != kKeepLimit)
        r = set_limit(RLIMIT_NOFILE, l.open_files, l.open_files);
    else if (l.nofile_soft != kKeepLimit)
        r = set_limit(RLIMIT_NOFILE, l.nofile_soft, kKeepLimit);
    if (r >= 0 && l.processes != kKeepLimit) r = set_limit(RLIMIT_NPROC, l.processes, l.processes);
    if (r >= 0 && l.file_size != kKeepLimit) r = set_limit(RLIMIT_FSIZE, l.file_size, l.file_size);
    if (r >= 0 && l.cpu_seconds != kKeepLimit) r = set_limit(RLIMIT_CPU, l.cpu_seconds, l.cpu_seconds);
    return r;
}

/// Without a difference nothing is called: a user namespace with one id forbids setgroups(2).
long set_identity(const Launch& l)
{
    const bool same = call(SYS_getuid) == l.uid && call(SYS_geteuid) == l.uid && call(SYS_getgid) == l.gid &&
                      call(SYS_getegid) == l.gid;
    if (same) return 0;
    if (const long r = call(SYS_setgroups, 0, nullptr); r < 0) return r;
    if (const long r = call(SYS_setresgid, l.gid, l.gid, l.gid); r < 0) return r;
    return call(SYS_setresuid, l.uid, l.uid, l.uid);
}

const char* search_path(const char* const* envp)
{
    for (; *envp != nullptr; ++envp) {
        const char* e = *envp;
        if (e[0] == 'P' && e[1] == 'A' && e[2] == 'T' && e[3] == 'H' && e[4] == '=') return e + 5;
    }
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/// A program that was handed in may be one that nobody may read, so that nobody can look into it while it
/// runs. Root could read it all the same. What is put aside comes back with the execution.
long put_capabilities_aside()
{
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    if (const long r = call(SYS_capget, &head, &data[0]); r < 0) return r;
    data[0].effective = data[1].effective = 0;
    return call(SYS_capset, &head, &data[0]);
}

/// execvp(3) without its shell fallback: a file that is no program is an error. Returns only
/// with the error: EACCES if anything was there that could not be executed.
long execute(const Launch& l)
{
    const char* const* const argv = l.named ? l.argv + 1 : l.argv;
    if (l.program >= 0) {
        if (const long r = put_capabilities_aside(); r < 0) return r;
        return call(SYS_execveat, l.program, "", argv, l.envp, AT_EMPTY_PATH);
    }
    const char* name = l.argv[0];
    std::size_t length = 0;
    bool slash = false;
    for (; name[length] != '\0'; ++length) slash = slash || name[length] == '/';
    if (slash || length == 0) return call(SYS_execve, name, argv, l.envp);

    long result = -ENOENT;
    char full[4096];
    for (const char* path = search_path(l.envp);; ++path) {
        std::size_t n = 0;
        while (path[n] != '\0' && path[n] != ':') ++n;
        if (n + length + 2 <= sizeof full) {
            std::size_t at = n;
            __builtin_memcpy(full, path, n);
            if (n != 0) full[at++] = '/'; // an empty element is the current directory
            __builtin_memcpy(full + at, name, length + 1);
            const long r = call(SYS_execve, full, argv, l.envp);
            if (r == -EACCES)
                result = r;
            else if (r != -ENOENT && r != -ENOTDIR)
                return r;
        }
        path += n;
        if (*path == '\0') return result;
    }
}

} // namespace

extern "C" __attribute__((used)) int berth_keeper_child(void* argument)
{
    Launch& l = *static_cast<Launch*>(argument);
    if (l.session)
        if (const long r = call(SYS_setsid); r < 0) return fail(l, Step::Session, r);
    if (l.terminal)
        if (const long r = call(SYS_ioctl, l.input, TIOCSCTTY, 0); r < 0) return fail(l, Step::Terminal, r);
    const int standard[3] = {l.input, l.output, l.error};
    for (int fd = 0; fd < 3; ++fd)
        if (standard[fd] != fd)
            if (const long r = call(SYS_dup2, standard[fd], fd); r < 0) return fail(l, Step::Descriptors, r);
    for (std::uint32_t i = 0; i < l.task_count; ++i)
        if (const long r = call(SYS_write, l.tasks[i], "0", 1); r < 0) return fail(l, Step::Group, r);
    if (const long r = set_limits(l); r < 0) return fail(l, Step::Limits, r);
    if (const long r = set_identity(l); r < 0) return fail(l, Step::Identity, r);
    if (l.cwd[0] != '\0')
        if (const long r = call(SYS_chdir, l.cwd); r < 0) return fail(l, Step::Directory, r);
    if (l.birth_group >= 0) {
        const sock_fprog program{sizeof hide_clone3 / sizeof hide_clone3[0],
                                 const_cast<sock_filter*>(hide_clone3)};
        const long r = call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        if (r < 0) return fail(l, Step::Filter, r);
    }
    const u64 none = 0;
    call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, 8);
    return fail(l, Step::Command, execute(l));
}

/// clone3 onto child_stack; in the child calls berth_keeper_child and exits with its answer.
extern "C" long berth_keeper_clone3(clone_args* args, std::size_t size, Launch* launch);
/// The same by clone, for where a filter answers clone3 with ENOSYS.
extern "C" long berth_keeper_clone(u64 flags, void* stack, std::uint32_t* tid, Launch* launch);

asm(".text\n.globl berth_keeper_clone3\nberth_keeper_clone3:\n"
    " mov %rdx,%r8\n mov $435,%eax\n syscall\n test %rax,%rax\n jz 1f\n ret\n"
    "1: xor %ebp,%ebp\n mov %r8,%rdi\n call berth_keeper_child\n mov %eax,%edi\n mov $60,%eax\n syscall\n"
    ".globl berth_keeper_clone\nberth_keeper_clone:\n"
    " mov %rdx,%r10\n mov %rcx,%r9\n xor %edx,%edx\n xor %r8d,%r8d\n mov $56,%eax\n syscall\n"
    " test %rax,%rax\n jz 2f\n ret\n"
    "2: xor %ebp,%ebp\n mov %r9,%rdi\n call berth_keeper_child\n mov %eax,%edi\n mov $60,%eax\n syscall\n");

long spawn(Launch& l)
{
    l.failed_step = Step::None;
    l.failed_error = 0;
    l.alive = 1;
    // CLEARTID without SETTID: the word is not a tid, only "still there".
    constexpr u64 flags = CLONE_VM | CLONE_CHILD_CLEARTID;
    long pid;
    if (l.birth_group >= 0) {
        clone_args args{};
        args.flags = flags | CLONE_INTO_CGROUP;
        args.child_tid = reinterpret_cast<u64>(&l.alive);
        args.exit_signal = SIGCHLD;
        args.stack = reinterpret_cast<u64>(child_stack);
        args.stack_size = sizeof child_stack;
        args.cgroup = static_cast<u64>(l.birth_group);
        pid = berth_keeper_clone3(&args, sizeof args, &l);
    } else {
        pid = berth_keeper_clone(flags | SIGCHLD, child_stack + sizeof child_stack, &l.alive, &l);
    }
    if (pid < 0) l.alive = 0;
    return pid;
}

bool done(const Launch& l) { return __atomic_load_n(&l.alive, __ATOMIC_ACQUIRE) == 0; }

bool wait_for_exec(Launch& l, u64 timeout_ns)
{
    const u64 end = timeout_ns == ~u64{0} ? timeout_ns : steady_ns() + timeout_ns;
    while (!done(l)) {
        timespec left{};
        if (end != ~u64{0}) {
            const u64 now = steady_ns();
            if (now >= end) return false;
            left = to_timespec(end - now);
        }
        call(SYS_futex, &l.alive, FUTEX_WAIT, 1, end == ~u64{0} ? nullptr : &left, nullptr, 0);
    }
    return true;
}

} // namespace berth::keeper
