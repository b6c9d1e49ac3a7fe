// The system-call filter: protects the kernel's larger attack surfaces (mounting, namespaces,
// modules, bpf, keyrings, io_uring, handles) from code inside. It relies on nothing but the kernel;
// it is the second wall where ownership of the namespaces is the first (root mode), and the only
// one against mount where the sandbox owns its namespaces (ordinary user).

#include "sys/seccomp.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"

namespace berth::sys {

namespace {

using Code = std::vector<sock_filter>;
using Rule = std::pair<std::uint32_t, Code>;

// Younger than the kernel headers of Debian 12.
constexpr std::uint32_t kFchmodat2 = 452;
constexpr std::uint32_t kSetxattrat = 463;
constexpr std::uint32_t kRemovexattrat = 466;
constexpr std::uint32_t kFileSetattr = 469;
constexpr std::uint32_t kOpenTreeAttr = 467;
constexpr std::uint32_t kLsmSetSelfAttr = 460;

constexpr std::uint32_t kNamespaceFlags = 0x7e020000; // CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
constexpr std::uint32_t kNewTime = 0x80;              // CLONE_NEWTIME, only in unshare
constexpr std::uint32_t kSetIdBits = 06000;

sock_filter statement(int code, std::uint32_t k)
{
    return {.code = static_cast<std::uint16_t>(code), .jt = 0, .jf = 0, .k = k};
}
sock_filter jump(int code, std::uint32_t k, std::size_t yes, std::size_t no)
{
    return {.code = static_cast<std::uint16_t>(BPF_JMP | code | BPF_K),
            .jt = static_cast<std::uint8_t>(yes),
            .jf = static_cast<std::uint8_t>(no),
            .k = k};
}
sock_filter answer(std::uint32_t what) { return statement(BPF_RET | BPF_K, what); }
sock_filter refuse(int err) { return answer(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(err)); }
sock_filter allow() { return answer(SECCOMP_RET_ALLOW); }
sock_filter notify() { return answer(SECCOMP_RET_USER_NOTIF); }

/// Loads the low 32 bits of an argument: the kernel looks at no more of flags, modes and commands.
sock_filter argument(unsigned i)
{
    return statement(BPF_LD | BPF_W | BPF_ABS,
                     static_cast<std::uint32_t>(offsetof(seccomp_data, args) + std::size_t{8} * i));
}

Code when_bits(unsigned arg, std::uint32_t bits, int err, sock_filter otherwise = allow())
{
    return {argument(arg), jump(BPF_JSET, bits, 0, 1), refuse(err), otherwise};
}

/// The mode of open counts only when it creates; otherwise the register holds garbage. A descriptor for a
/// path alone reads nothing, and nobody else could give it to the caller: no supervisor is asked.
Code open_rule(const FilterOptions& options, unsigned flags)
{
    constexpr std::uint32_t creates = O_CREAT | 020000000 /* __O_TMPFILE */;
    Code code{argument(flags)};
    if (options.supervise_paths)
        code.push_back(jump(BPF_JSET, 010000000 /* O_PATH */, options.refuse_set_id ? 5 : 1, 0));
    if (options.refuse_set_id) {
        code.push_back(jump(BPF_JSET, creates, 0, 3));
        code.push_back(argument(flags + 1));
        code.push_back(jump(BPF_JSET, kSetIdBits, 0, 1));
        code.push_back(refuse(EPERM));
    }
    if (options.supervise_paths) code.push_back(notify());
    code.push_back(allow());
    return code;
}

/// One of the values, else refused.
Code only_values(unsigned arg, const std::vector<std::uint32_t>& values, int err)
{
    Code code{argument(arg)};
    for (std::size_t i = 0; i < values.size(); ++i)
        code.push_back(jump(BPF_JEQ, values[i], values.size() - i, 0));
    code.push_back(refuse(err));
    code.push_back(allow());
    return code;
}

Code not_values(unsigned arg, const std::vector<std::uint32_t>& values, int err)
{
    Code code{argument(arg)};
    for (std::size_t i = 0; i < values.size(); ++i)
        code.push_back(jump(BPF_JEQ, values[i], values.size() - i, 0));
    code.push_back(allow());
    code.push_back(refuse(err));
    return code;
}

/// The limit of core files is one byte, which stops the host's handler, too; none at all would not. Whoever
/// sets it is told that it is done.
Code core_limit(unsigned resource)
{
    return {argument(resource), jump(BPF_JEQ, RLIMIT_CORE, 0, 1), refuse(0), allow()};
}

/// Loads the other half of an argument that is an address.
sock_filter upper_half(unsigned i)
{
    auto out = argument(i);
    out.k += 4;
    return out;
}

Code own_limits()
{
    return {argument(0),   jump(BPF_JEQ, 1, 10, 0),           // the keeper's: refused
            argument(1),   jump(BPF_JEQ, RLIMIT_CORE, 0, 10), // another: allowed
            argument(2),   jump(BPF_JEQ, 0, 0, 2),            // only asked for: allowed
            upper_half(2), jump(BPF_JEQ, 0, 6, 0),            //
            argument(3),   jump(BPF_JEQ, 0, 0, 2), // who wants to know the old one is not told a lie
            upper_half(3), jump(BPF_JEQ, 0, 1, 0), //
            refuse(EPERM), refuse(0),
            allow()};
}

/// UNIX, INET, INET6, and of NETLINK only routing, which programs ask for their own interfaces.
Code socket_families(const FilterOptions& options)
{
    const int local = options.refuse_unix ? AF_INET : AF_UNIX;
    Code code{argument(0), jump(BPF_JEQ, AF_NETLINK, 0, 2), argument(2), jump(BPF_JEQ, NETLINK_ROUTE, 4, 3)};
    code.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(local), 3, 0));
    code.push_back(jump(BPF_JEQ, AF_INET, 2, 0));
    code.push_back(jump(BPF_JEQ, AF_INET6, 1, 0));
    code.push_back(refuse(EAFNOSUPPORT));
    code.push_back(allow());
    return code;
}

/// A pair of datagrams can send to any path; streams and packets only to each other.
Code connected_pairs()
{
    return {argument(0),
            jump(BPF_JEQ, AF_UNIX, 0, 4),
            argument(1),
            statement(BPF_ALU | BPF_AND | BPF_K, 0xf), // the rest are flags
            jump(BPF_JEQ, SOCK_STREAM, 2, 0),
            jump(BPF_JEQ, SOCK_SEQPACKET, 1, 0),
            refuse(EAFNOSUPPORT),
            allow()};
}

constexpr std::uint32_t kAlways[] = {
    // the kernel itself
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_create_module,
    SYS_query_module,
    SYS_get_kernel_syms,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_syslog,
    SYS_vhangup,
    SYS_iopl,
    SYS_ioperm,
    SYS_nfsservctl,
    SYS_lookup_dcookie,
    SYS__sysctl,
    SYS_uselib,
    SYS_ustat,
    kLsmSetSelfAttr,
    // time
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    // large or leaky subsystems
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_fanotify_init,
    // files by handle, other processes' memory
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_move_pages,
    SYS_migrate_pages,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_set_mempolicy_home_node,
};

constexpr std::uint32_t kMounting[] = {
    SYS_mount,      SYS_umount2,   SYS_pivot_root,    SYS_fsopen,    SYS_fsconfig, SYS_fsmount, SYS_fspick,
    SYS_move_mount, SYS_open_tree, SYS_mount_setattr, kOpenTreeAttr, SYS_setns,    SYS_chroot,
};

/// Calls with a mode, and which of their arguments it is.
constexpr std::pair<std::uint32_t, unsigned> kModes[] = {
    {SYS_chmod, 1}, {SYS_fchmodat, 2}, {kFchmodat2, 2}, {SYS_creat, 1},
    {SYS_mknod, 1}, {SYS_mknodat, 2},  {SYS_mkdir, 1},  {SYS_mkdirat, 2},
};

/// Further calls that reach by a path what lies there, or change what a path means.
constexpr std::uint32_t kByPath[] = {
    SYS_execve, SYS_execveat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_link,      SYS_linkat,
    SYS_unlink, SYS_unlinkat, SYS_rmdir,  SYS_symlink,  SYS_symlinkat, SYS_truncate,  SYS_chown,
    SYS_lchown, SYS_fchownat, SYS_utime,  SYS_utimes,   SYS_futimesat, SYS_utimensat,
};

/// What is refused by mode, and what a supervisor is asked about.
template <class Add> void add_path_rules(const FilterOptions& options, Add&& add)
{
    if (!options.refuse_set_id && !options.supervise_paths) return;
    const auto past = options.supervise_paths ? notify() : allow();
    for (const auto& [number, mode] : kModes)
        add(number, options.refuse_set_id ? when_bits(mode, kSetIdBits, EPERM, past) : Code{past});
    add(SYS_open, open_rule(options, 1));
    add(SYS_openat, open_rule(options, 2));
    add(SYS_openat2, {refuse(ENOSYS)}); // what it is asked stands in memory
    add(kSetxattrat, {refuse(ENOSYS)});
    if (options.refuse_set_id) add(SYS_fchmod, when_bits(1, kSetIdBits, EPERM));
    if (options.supervise_paths) {
        for (const auto number : kByPath) add(number, {notify()});
        for (const auto number : {kRemovexattrat, kFileSetattr}) add(number, {refuse(ENOSYS)});
        for (const auto number : {SYS_removexattr, SYS_lremovexattr})
            add(static_cast<std::uint32_t>(number), {refuse(ENOTSUP)});
    }
    // Root of a nested namespace may give file capabilities, and the mount's map makes them the host's.
    if (options.supervise_paths || options.allow_namespaces)
        for (const auto number : {SYS_setxattr, SYS_lsetxattr})
            add(static_cast<std::uint32_t>(number), {refuse(ENOTSUP)});
    if (options.refuse_set_id && options.allow_namespaces) add(SYS_fsetxattr, {refuse(ENOTSUP)});
}

std::vector<Rule> rules(const FilterOptions& options)
{
    std::vector<Rule> out;
    const auto add = [&](std::uint32_t number, Code code) { out.emplace_back(number, std::move(code)); };
    for (const auto number : kAlways) add(number, {refuse(EPERM)});
    if (!options.allow_namespaces) {
        for (const auto number : kMounting) add(number, {refuse(EPERM)});
        add(SYS_clone, when_bits(0, kNamespaceFlags, EPERM));
        add(SYS_unshare, when_bits(0, kNamespaceFlags | kNewTime, EPERM));
        // Its flags stand in memory, where a filter cannot look: libc falls back to clone.
        if (!options.allow_clone3) add(SYS_clone3, {refuse(ENOSYS)});
    }
    add(SYS_socket, socket_families(options));
    // Creates the sockets, and loads the family's module, before it finds that the family has no pairs.
    add(SYS_socketpair, options.refuse_unix ? connected_pairs() : only_values(0, {AF_UNIX}, EAFNOSUPPORT));
    // The keeper is process 1, and of the same user as commands can be: nobody inside may starve it.
    for (const auto number :
         {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr})
        add(static_cast<std::uint32_t>(number), not_values(0, {1}, EPERM));
    add(SYS_prlimit64, own_limits());
    add(SYS_setrlimit, core_limit(0));
    for (const auto number : {SYS_setpriority, SYS_ioprio_set})
        add(static_cast<std::uint32_t>(number), not_values(1, {1}, EPERM));
    // A lease on a file of the host would make its writers wait.
    add(SYS_fcntl, not_values(1, {F_SETLEASE}, EAGAIN));
    add(SYS_ioctl, not_values(1, {0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */}, EPERM));
    // PER_LINUX, PER_LINUX32, without address randomisation (debuggers), and "only tell".
    add(SYS_personality, only_values(0, {0, 8, 0x0040000, 0x0040008, 0xffffffff}, EPERM));
    add_path_rules(options, add);
    std::ranges::sort(out, {}, &Rule::first);
    return out;
}

/// A program written from its end to its beginning, so that every jump, which can only go forward,
/// knows how far it is. Answers that are the same are there once: the shorter a filter, the sooner
/// the kernel has translated it, at each launch anew. A place is a distance from the end.
class Backwards {
public:
    using Place = std::size_t;

    Place block(const Code& code)
    {
        for (const auto& [known, place] : blocks_)
            if (known == bytes(code)) return place;
        code_.insert(code_.end(), code.rbegin(), code.rend());
        blocks_.emplace_back(bytes(code), code_.size() - 1);
        return code_.size() - 1;
    }

    /// The answer for numbers from `least` on is at `from`, for the others at `below`.
    Place decide(std::uint32_t least, Place from, Place below)
    {
        from = nearer(from);
        below = nearer(below);
        code_.push_back(jump(BPF_JGE, least, code_.size() - 1 - from, code_.size() - 1 - below));
        return code_.size() - 1;
    }

    /// The program, after a few statements that fall through to its last place.
    [[nodiscard]] std::string after(Code head) const
    {
        head.insert(head.end(), code_.rbegin(), code_.rend());
        return bytes(head);
    }

private:
    /// A conditional jump reaches 255 statements, one without a condition any number.
    Place nearer(Place place)
    {
        if (code_.size() - place < 250) return place;
        code_.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(code_.size() - 1 - place)));
        return code_.size() - 1;
    }

    static std::string bytes(const Code& code)
    {
        return {reinterpret_cast<const char*>(code.data()), code.size() * sizeof(sock_filter)};
    }

    Code code_;
    std::vector<std::pair<std::string, Place>> blocks_;
};

/// From `least` up to the next one's, the answer is at `place`.
struct Interval {
    std::uint32_t least;
    Backwards::Place place;
};

Backwards::Place tree(Backwards& program, std::span<const Interval> all)
{
    if (all.size() == 1) return all.front().place;
    const std::size_t middle = all.size() / 2;
    const auto upper = tree(program, all.subspan(middle));
    const auto lower = tree(program, all.first(middle));
    return program.decide(all[middle].least, upper, lower);
}

std::string build(const FilterOptions& options)
{
    constexpr std::uint32_t x32 = 0x40000000; // reaches the same calls under other numbers
    Backwards program;
    const auto allowed = program.block({allow()});
    std::vector<Interval> all{{0, allowed}};
    const auto add = [&](std::uint32_t least, Backwards::Place place) {
        if (all.back().least == least) all.pop_back();
        if (all.empty() || all.back().place != place) all.push_back({least, place});
    };
    for (const auto& [number, code] : rules(options)) {
        add(number, program.block(code));
        add(number + 1, allowed);
    }
    add(x32, program.block({refuse(ENOSYS)}));
    (void)tree(program, all); // its first decision is the last that was written
    return program.after({
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
        jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
        answer(SECCOMP_RET_KILL_PROCESS),
        statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    });
}

} // namespace

std::string lacks_notification()
{
    // Without a program it fails in any case: with this error only where the flags are known.
    constexpr unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | 1u << 5; // WAIT_KILLABLE_RECV: 5.19
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, nullptr) == 0 || errno != EFAULT)
        return "the kernel must notify of system calls (Linux 5.19)";
    const UniqueFd scope(::open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
    char value = '0';
    if (scope && ::read(scope.get(), &value, 1) == 1 && value == '3')
        return "kernel.yama.ptrace_scope is 3, so that nobody may look at what a command executes";
    return {};
}

const std::string& seccomp_filter(const FilterOptions& options)
{
    static std::array<std::once_flag, 32> once;
    static std::array<std::string, 32> built;
    const std::size_t kind = (options.refuse_set_id ? 1 : 0) | (options.allow_clone3 ? 2 : 0) |
                             (options.allow_namespaces ? 4 : 0) | (options.refuse_unix ? 8 : 0) |
                             (options.supervise_paths ? 16 : 0);
    std::call_once(once[kind], [&] { built[kind] = build(options); });
    return built[kind];
}

} // namespace berth::sys
