// The filter's program, run by an interpreter of the few BPF instructions it uses, on calls that a
// sandbox might make. Nothing here is installed: the kernel's own answer is asserted by tests/security.

#include "sys/seccomp.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace berth::sys {
namespace {

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t refused(int err) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(err); }

class Filter {
public:
    explicit Filter(const FilterOptions& options)
    {
        const std::string bytes = seccomp_filter(options);
        code_.resize(bytes.size() / sizeof(sock_filter));
        std::memcpy(code_.data(), bytes.data(), bytes.size());
    }

    [[nodiscard]] const std::vector<sock_filter>& code() const { return code_; }

    [[nodiscard]] std::uint32_t run(const seccomp_data& call) const
    {
        std::uint32_t a = 0;
        for (std::size_t at = 0; at < code_.size(); ++at) {
            const sock_filter& i = code_[at];
            switch (i.code) {
            case BPF_LD | BPF_W | BPF_ABS:
                if (i.k + sizeof a > sizeof call) return fault("load", at);
                std::memcpy(&a, reinterpret_cast<const char*>(&call) + i.k, sizeof a);
                break;
            case BPF_JMP | BPF_JA: at += i.k; break;
            case BPF_JMP | BPF_JEQ | BPF_K: at += a == i.k ? i.jt : i.jf; break;
            case BPF_JMP | BPF_JGE | BPF_K: at += a >= i.k ? i.jt : i.jf; break;
            case BPF_JMP | BPF_JSET | BPF_K: at += (a & i.k) != 0 ? i.jt : i.jf; break;
            case BPF_RET | BPF_K: return i.k;
            default: return fault("instruction", at);
            }
        }
        return fault("end", code_.size());
    }

    [[nodiscard]] std::uint32_t operator()(long number, std::vector<std::uint64_t> args = {}) const
    {
        seccomp_data call{};
        call.nr = static_cast<int>(number);
        call.arch = AUDIT_ARCH_X86_64;
        for (std::size_t i = 0; i < args.size(); ++i) call.args[i] = args[i];
        return run(call);
    }

private:
    static std::uint32_t fault(const char* what, std::size_t at)
    {
        ADD_FAILURE() << "bad " << what << " at " << at;
        return 0xdeadbeef;
    }
    std::vector<sock_filter> code_;
};

// Written out a second time on purpose: taking one out of the filter must turn this red.
const std::set<long> kAlwaysDenied{SYS_kexec_load,
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
                                   460,
                                   SYS_settimeofday,
                                   SYS_clock_settime,
                                   SYS_adjtimex,
                                   SYS_clock_adjtime,
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
                                   SYS_open_by_handle_at,
                                   SYS_name_to_handle_at,
                                   SYS_process_vm_readv,
                                   SYS_process_vm_writev,
                                   SYS_kcmp,
                                   SYS_move_pages,
                                   SYS_migrate_pages,
                                   SYS_mbind,
                                   SYS_set_mempolicy,
                                   SYS_set_mempolicy_home_node};

const std::set<long> kMounting{SYS_mount,   SYS_umount2, SYS_pivot_root, SYS_fsopen,    SYS_fsconfig,
                               SYS_fsmount, SYS_fspick,  SYS_move_mount, SYS_open_tree, SYS_mount_setattr,
                               467,         SYS_setns,   SYS_chroot};

constexpr long kLastNumber = 600; // beyond every number of today

TEST(Seccomp, EveryJumpStaysInTheProgram)
{
    for (unsigned kind = 0; kind < 32; ++kind) {
        const Filter filter({.refuse_set_id = (kind & 1) != 0,
                             .allow_clone3 = (kind & 2) != 0,
                             .allow_namespaces = (kind & 4) != 0,
                             .refuse_unix = (kind & 8) != 0,
                             .supervise_paths = (kind & 16) != 0});
        const auto& code = filter.code();
        ASSERT_LT(code.size(), 4096u);
        for (std::size_t i = 0; i < code.size(); ++i) {
            if (BPF_CLASS(code[i].code) != BPF_JMP) continue;
            const bool always = BPF_OP(code[i].code) == BPF_JA;
            EXPECT_LT(i + 1 + (always ? code[i].k : std::max(code[i].jt, code[i].jf)), code.size()) << i;
        }
        EXPECT_EQ(BPF_CLASS(code.back().code), BPF_RET);
    }
}

TEST(Seccomp, DeniesWhatItNamesAndAllowsTheRest)
{
    const Filter filter({});
    for (long number = 0; number < kLastNumber; ++number) {
        std::uint32_t expected = kAllow;
        if (kAlwaysDenied.contains(number) || kMounting.contains(number)) expected = refused(EPERM);
        if (number == SYS_clone3) expected = refused(ENOSYS);
        if (number == SYS_socket || number == SYS_socketpair) expected = refused(EAFNOSUPPORT); // family 0
        EXPECT_EQ(filter(number), expected) << "system call " << number;
    }
}

TEST(Seccomp, NestedNamespacesOpenOnlyWhatTheyNeed)
{
    const Filter filter({.allow_namespaces = true});
    for (const long number : kMounting) EXPECT_EQ(filter(number), kAllow) << number;
    EXPECT_EQ(filter(SYS_clone3), kAllow);
    EXPECT_EQ(filter(SYS_clone, {CLONE_NEWUSER}), kAllow);
    EXPECT_EQ(filter(SYS_unshare, {CLONE_NEWNS}), kAllow);
    for (const long number : kAlwaysDenied) EXPECT_EQ(filter(number), refused(EPERM)) << number;
}

TEST(Seccomp, NoNamespaceCanBeMade)
{
    const Filter filter({});
    constexpr std::uint64_t kNewTime = 0x80;
    for (const std::uint64_t flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER,
                                     CLONE_NEWPID, CLONE_NEWNET}) {
        EXPECT_EQ(filter(SYS_clone, {flag | SIGCHLD}), refused(EPERM)) << flag;
        EXPECT_EQ(filter(SYS_unshare, {flag}), refused(EPERM)) << flag;
        EXPECT_EQ(filter(SYS_clone, {flag | 0xffffffff00000000}), refused(EPERM)) << "high bits hide nothing";
    }
    EXPECT_EQ(filter(SYS_unshare, {kNewTime}), refused(EPERM));
    EXPECT_EQ(filter(SYS_clone, {SIGCHLD}), kAllow);
    EXPECT_EQ(filter(SYS_clone, {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD}), kAllow);
    EXPECT_EQ(filter(SYS_unshare, {CLONE_FILES}), kAllow);
}

TEST(Seccomp, Clone3IsForTheKeeperAlone)
{
    EXPECT_EQ(Filter({})(SYS_clone3), refused(ENOSYS)) << "libc falls back to clone on ENOSYS only";
    EXPECT_EQ(Filter({.allow_clone3 = true})(SYS_clone3), kAllow);
    EXPECT_EQ(Filter({.allow_clone3 = true})(SYS_clone, {CLONE_NEWUSER}), refused(EPERM));
}

TEST(Seccomp, OnlyTheUsualSocketFamilies)
{
    const Filter filter({});
    for (const std::uint64_t family : {AF_UNIX, AF_INET, AF_INET6})
        EXPECT_EQ(filter(SYS_socket, {family, SOCK_STREAM, 0}), kAllow) << family;
    for (std::uint64_t family = 0; family < 64; ++family) {
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK) continue;
        EXPECT_EQ(filter(SYS_socket, {family, SOCK_RAW, 0}), refused(EAFNOSUPPORT)) << family;
    }
    EXPECT_EQ(filter(SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_ROUTE}), kAllow);
    for (std::uint64_t protocol = 1; protocol < 32; ++protocol)
        EXPECT_EQ(filter(SYS_socket, {AF_NETLINK, SOCK_RAW, protocol}), refused(EAFNOSUPPORT)) << protocol;
}

TEST(Seccomp, OnlyUnixSocketsComeInPairs)
{
    const Filter filter({});
    for (std::uint64_t family = 0; family < 64; ++family)
        EXPECT_EQ(filter(SYS_socketpair, {family, SOCK_STREAM, 0}),
                  family == AF_UNIX ? kAllow : refused(EAFNOSUPPORT))
            << family;
}

TEST(Seccomp, NobodyTypesIntoATerminal)
{
    const Filter filter({});
    constexpr std::uint64_t kTiocsti = 0x5412;
    constexpr std::uint64_t kTioclinux = 0x541c;
    EXPECT_EQ(filter(SYS_ioctl, {0, kTiocsti}), refused(EPERM));
    EXPECT_EQ(filter(SYS_ioctl, {0, kTioclinux}), refused(EPERM));
    EXPECT_EQ(filter(SYS_ioctl, {0, kTiocsti | 0x100000000}), refused(EPERM)) << "the kernel cuts to 32 bits";
    EXPECT_EQ(filter(SYS_ioctl, {0, 0x5401 /* TCGETS */}), kAllow);
    EXPECT_EQ(filter(SYS_ioctl, {kTiocsti, 0x5413}), kAllow) << "only the command counts";
}

TEST(Seccomp, OnlyHarmlessPersonalities)
{
    const Filter filter({});
    for (const std::uint64_t good : {0x0u, 0x8u, 0x0040000u, 0x0040008u, 0xffffffffu})
        EXPECT_EQ(filter(SYS_personality, {good}), kAllow) << good;
    for (const std::uint64_t bad :
         {0x0400000u /* READ_IMPLIES_EXEC */, 0x0100000u /* MMAP_PAGE_ZERO */, 0x1u})
        EXPECT_EQ(filter(SYS_personality, {bad}), refused(EPERM)) << bad;
}

struct ModeCall {
    long number;
    std::size_t argument;
};
constexpr ModeCall kModeCalls[] = {{SYS_chmod, 1},   {SYS_fchmod, 1}, {SYS_fchmodat, 2},
                                   {452, 2},         {SYS_creat, 1},  {SYS_mknod, 1},
                                   {SYS_mknodat, 2}, {SYS_mkdir, 1},  {SYS_mkdirat, 2}};

TEST(Seccomp, NoSetIdBitCanBeMadeByAnyCall)
{
    const Filter filter({.refuse_set_id = true});
    for (const auto& call : kModeCalls)
        for (const std::uint64_t bits : {04000u, 02000u, 06000u}) {
            std::vector<std::uint64_t> args(6, 0);
            args[call.argument] = 0755;
            EXPECT_EQ(filter(call.number, args), kAllow) << call.number;
            args[call.argument] = 0755 | bits;
            EXPECT_EQ(filter(call.number, args), refused(EPERM)) << call.number;
            args[call.argument] |= 0xffffffff00000000;
            EXPECT_EQ(filter(call.number, args), refused(EPERM)) << call.number;
        }
    EXPECT_EQ(filter(SYS_openat2), refused(ENOSYS)) << "its mode stands in memory";
    EXPECT_EQ(filter(463), refused(ENOSYS)) << "setxattrat";
}

TEST(Seccomp, TheModeOfOpenCountsOnlyWhenItCreates)
{
    const Filter filter({.refuse_set_id = true});
    EXPECT_EQ(filter(SYS_open, {0, O_RDONLY, 04755}), kAllow) << "a register nobody looks at";
    EXPECT_EQ(filter(SYS_open, {0, O_WRONLY | O_CREAT, 0755}), kAllow);
    EXPECT_EQ(filter(SYS_open, {0, O_WRONLY | O_CREAT, 04755}), refused(EPERM));
    EXPECT_EQ(filter(SYS_openat, {0, 0, O_RDONLY, 04755}), kAllow);
    EXPECT_EQ(filter(SYS_openat, {0, 0, O_WRONLY | O_CREAT, 02755}), refused(EPERM));
    EXPECT_EQ(filter(SYS_openat, {0, 0, O_WRONLY | O_TMPFILE, 04755}), refused(EPERM));
    EXPECT_EQ(filter(SYS_openat, {0, 0, O_RDONLY | O_DIRECTORY, 04755}), kAllow);
}

TEST(Seccomp, WithoutAWritableHostDirectorySetIdIsTheSandboxesOwnAffair)
{
    const Filter filter({});
    for (const auto& call : kModeCalls) {
        std::vector<std::uint64_t> args(6, 0);
        args[call.argument] = 06755;
        EXPECT_EQ(filter(call.number, args), kAllow) << call.number;
    }
    EXPECT_EQ(filter(SYS_openat2), kAllow);
}

// Written out a second time, too: what reaches a file by its path, or changes what a path means.
const std::set<long> kSupervised{SYS_open,     SYS_openat,    SYS_creat,     SYS_execve,    SYS_execveat,
                                 SYS_rename,   SYS_renameat,  SYS_renameat2, SYS_link,      SYS_linkat,
                                 SYS_symlink,  SYS_symlinkat, SYS_unlink,    SYS_unlinkat,  SYS_rmdir,
                                 SYS_mkdir,    SYS_mkdirat,   SYS_mknod,     SYS_mknodat,   SYS_chmod,
                                 SYS_fchmodat, 452,           SYS_chown,     SYS_lchown,    SYS_fchownat,
                                 SYS_utime,    SYS_utimes,    SYS_futimesat, SYS_utimensat, SYS_truncate};

TEST(Seccomp, ASupervisorIsAskedAboutPaths)
{
    for (const bool set_id : {false, true}) {
        const Filter plain({.refuse_set_id = set_id});
        const Filter filter({.refuse_set_id = set_id, .supervise_paths = true});
        for (long number = 0; number < kLastNumber; ++number) {
            std::uint32_t expected = plain(number);
            if (kSupervised.contains(number)) expected = SECCOMP_RET_USER_NOTIF;
            for (const long known : {long{SYS_openat2}, 463l, 466l, 469l})
                if (number == known) expected = refused(ENOSYS);
            for (const long known : {SYS_setxattr, SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr})
                if (number == known) expected = refused(ENOTSUP);
            EXPECT_EQ(filter(number), expected) << "system call " << number;
        }
        EXPECT_EQ(filter(SYS_open, {0, O_PATH | O_CLOEXEC}), kAllow) << "nothing can be read from it";
        EXPECT_EQ(filter(SYS_openat, {0, 0, O_PATH}), kAllow);
        EXPECT_EQ(filter(SYS_openat, {0, 0, O_WRONLY | O_CREAT, 0644}), SECCOMP_RET_USER_NOTIF);
        EXPECT_EQ(filter(SYS_openat, {0, 0, O_WRONLY | O_CREAT, 04755}),
                  set_id ? refused(EPERM) : SECCOMP_RET_USER_NOTIF);
        EXPECT_EQ(filter(SYS_mkdir, {0, 02755}), set_id ? refused(EPERM) : SECCOMP_RET_USER_NOTIF);
    }
}

TEST(Seccomp, RefusesTheX32Numbers)
{
    const Filter filter({});
    for (const long number : {long{SYS_read}, long{SYS_mount}, long{SYS_bpf}, 512l, 547l})
        EXPECT_EQ(filter(number | 0x40000000), refused(ENOSYS)) << number;
    EXPECT_EQ(filter(-1), refused(ENOSYS));
}

TEST(Seccomp, KillsWhoCallsByAnotherArchitecture)
{
    const Filter filter({});
    for (const std::uint32_t arch : {std::uint32_t{AUDIT_ARCH_I386}, std::uint32_t{AUDIT_ARCH_AARCH64}, 0u}) {
        seccomp_data call{};
        call.nr = SYS_read;
        call.arch = arch;
        EXPECT_EQ(filter.run(call), std::uint32_t{SECCOMP_RET_KILL_PROCESS}) << arch;
    }
}

} // namespace
} // namespace berth::sys
