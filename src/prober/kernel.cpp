// Privileges and the kernel's face: what would raise a process above its sandbox.

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "prober.hpp"

namespace prober {
namespace {

void new_privileges(const Words&, Answer& answer)
{
    const int set = ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    if (set == 1) return say(answer, Outcome::Refused, true, "no_new_privs is set");
    say(answer, Outcome::Permitted, true, "no_new_privs is not set");
}

void unfiltered(const Words&, Answer& answer)
{
    char text[4096] = {};
    const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::read(fd, text, sizeof text - 1) <= 0)
        return say(answer, Outcome::Unclear, false, "no /proc/self/status");
    const char* const line = std::strstr(text, "\nSeccomp:\t");
    if (line == nullptr) return say(answer, Outcome::Unclear, false, "the kernel does not tell");
    if (line[10] == '2') return say(answer, Outcome::Refused, true, "a seccomp filter is in force");
    say(answer, Outcome::Permitted, true, "no seccomp filter");
}

struct Capability {
    int number;
    const char* name;
};
/// What reaches beyond the own files and processes.
constexpr Capability kDangerous[] = {
    {CAP_DAC_READ_SEARCH, "dac_read_search"},
    {CAP_NET_ADMIN, "net_admin"},
    {CAP_SYS_MODULE, "sys_module"},
    {CAP_SYS_RAWIO, "sys_rawio"},
    {CAP_SYS_PTRACE, "sys_ptrace"},
    {CAP_SYS_ADMIN, "sys_admin"},
    {CAP_SYS_BOOT, "sys_boot"},
    {CAP_SYS_NICE, "sys_nice"},
    {CAP_SYS_RESOURCE, "sys_resource"},
    {CAP_SYS_TIME, "sys_time"},
    {CAP_SYSLOG, "syslog"},
    {CAP_LINUX_IMMUTABLE, "linux_immutable"},
    {CAP_PERFMON, "perfmon"},
    {CAP_BPF, "bpf"},
};

/// Held, or to be had by way of a set-id program.
void capabilities(const Words&, Answer& answer)
{
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    if (::syscall(SYS_capget, &head, data) != 0) return refused(answer, "asking for them", errno, false);
    char names[160] = {};
    std::size_t used = 0;
    for (const auto& one : kDangerous) {
        const bool held = (data[one.number / 32].permitted >> (one.number % 32) & 1U) != 0;
        const bool bound = ::prctl(PR_CAPBSET_READ, one.number, 0, 0, 0) == 1;
        if ((held || bound) && used < sizeof names - 24)
            used += static_cast<std::size_t>(std::snprintf(names + used, sizeof names - used, " %s%s",
                                                           one.name, held ? "" : " (bounding set)"));
    }
    if (used > 0) return say(answer, Outcome::Permitted, true, "has%s", names);
    say(answer, Outcome::Refused, true, "none that reaches beyond");
}

/// The last mapping of user 0: to itself, it is the machine's own root.
void machine_root(const Words&, Answer& answer)
{
    char text[512] = {};
    const int fd = ::open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::read(fd, text, sizeof text - 1) <= 0)
        return say(answer, Outcome::Unclear, false, "no /proc/self/uid_map");
    unsigned long inside = 0;
    unsigned long outside = 0;
    unsigned long count = 0;
    if (std::sscanf(text, "%lu %lu %lu", &inside, &outside, &count) != 3)
        return say(answer, Outcome::Unclear, false, "its uid_map cannot be read");
    if (inside == 0 && outside == 0) return permitted(answer, "user 0 inside is user 0 outside");
    say(answer, Outcome::Refused, true, "user %lu inside is %lu outside", inside, outside);
}

void become_root(const Words&, Answer& answer)
{
    if (::setresuid(0, 0, 0) == 0) return permitted(answer, "became user 0");
    refused(answer, "becoming user 0", errno, true);
}

void keys(const Words&, Answer& answer)
{
    if (::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) >= 0)
        return permitted(answer, "the session's keyring");
    refused(answer, "asking for a keyring", errno, errno == EPERM || errno == ENOSYS);
}

/// In a child: a namespace cannot be given back.
void namespaces(const Words&, Answer& answer)
{
    const pid_t child = ::fork();
    if (child < 0) return say(answer, Outcome::Unclear, false, "no process");
    if (child == 0) ::_exit(::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : errno);
    int status = 0;
    ::waitpid(child, &status, 0);
    const int error = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
    if (error == 0) return permitted(answer, "made a user namespace");
    refused(answer, "making a user namespace", error, error == EPERM || error == ENOSYS);
}

/// Nothing is mounted anywhere: the older call is given a kind of file system that does not exist, which it
/// looks at after the right to mount; the newer ones make one that is attached nowhere.
void mounts(const Words&, Answer& answer)
{
    if (::mount("berth-probe", "/", "berth-no-such-kind", MS_RDONLY, nullptr) == 0 || errno == ENODEV)
        return permitted(answer, "has the right to mount");
    const int error = errno;
    const long context = ::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    if (context >= 0) {
        ::close(static_cast<int>(context));
        return permitted(answer, "began to make a file system");
    }
    const bool sure = (error == EPERM || error == ENOSYS) && (errno == EPERM || errno == ENOSYS);
    refused(answer, "mounting", error, sure);
}

/// Opened for writing, nothing is written.
void kernel_settings(const Words&, Answer& answer)
{
    int error = ENOENT;
    for (const char* path :
         {"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
          "/proc/sys/vm/panic_on_oom", "/sys/kernel/uevent_helper"}) {
        const int fd = ::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        struct stat st{};
        // A cover made of a file or of /dev/null can be opened, and leads nowhere.
        const bool cover = fd >= 0 && ::fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
        if (fd >= 0 && !cover) return say(answer, Outcome::Permitted, true, "opened %s for writing", path);
        if (fd < 0 && errno != ENOENT) error = errno;
    }
    // Asks the mount before the permissions.
    ::removexattr("/proc/sys/kernel/core_pattern", "user.berth.probe");
    if (errno == EROFS) error = EROFS;
    refused(answer, "opening settings for writing", error, error == EROFS || ::geteuid() == 0);
}

/// Nodes of memory and disks that are found may not be opened; nor one that is made. That one is of a number
/// nobody has: where the wall is missing the kernel looks for its driver, and a forgotten one leads nowhere.
void devices(const Words& w, Answer& answer)
{
    constexpr unsigned kNobody = 120; // kept for experiments
    for (const char* path :
         {"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1"})
        if (::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) >= 0)
            return say(answer, Outcome::Permitted, true, "opened %s", path);
    int error = EPERM;
    if (*w[0] != '\0') {
        const char* const node = scratch_name(w[0]);
        if (::mknod(node, S_IFCHR | 0600, makedev(kNobody, 77)) == 0) {
            const int fd = ::open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
            error = errno;
            ::unlink(node);
            if (fd >= 0 || error == ENXIO || error == ENODEV)
                return permitted(answer, "made a node, and the kernel would open it");
        } else {
            error = errno;
        }
    }
    refused(answer, "opening memory and disks", error, ::geteuid() == 0);
}

constexpr Entry kEntries[] = {
    {"new-privileges", new_privileges},   {"unfiltered", unfiltered},
    {"capabilities", capabilities},       {"machine-root", machine_root},
    {"become-root", become_root},         {"keys", keys},
    {"namespaces", namespaces},           {"mounts", mounts},
    {"kernel-settings", kernel_settings}, {"devices", devices},
};

} // namespace

Entries kernel_acts() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

} // namespace prober
