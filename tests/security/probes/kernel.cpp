// Attempts on the kernel's larger surfaces: each call with arguments that are harmless should it pass.

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>

#include "probe.hpp"

namespace probe {
namespace {

int io_uring(const Words&)
{
    io_uring_params params{};
    return outcome(::syscall(SYS_io_uring_setup, 4, &params));
}
int epoll(const Words&) { return outcome(::epoll_create1(0)); }

int bpf(const Words&)
{
    bpf_attr attr{};
    attr.map_type = BPF_MAP_TYPE_ARRAY;
    attr.key_size = attr.value_size = 4;
    attr.max_entries = 1;
    return outcome(::syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

int perf(const Words&)
{
    perf_event_attr attr{};
    attr.type = PERF_TYPE_SOFTWARE;
    attr.size = sizeof attr;
    attr.config = PERF_COUNT_SW_TASK_CLOCK;
    attr.exclude_kernel = attr.exclude_hv = 1;
    return outcome(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

int userfault(const Words&)
{
    return outcome(::syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* USER_MODE_ONLY */));
}
int fanotify(const Words&) { return outcome(::syscall(SYS_fanotify_init, 0x200 /* REPORT_FID */, O_RDONLY)); }
int add_key(const Words&)
{
    return outcome(::syscall(SYS_add_key, "user", "berth-test", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}
int request_key(const Words&)
{
    return outcome(::syscall(SYS_request_key, "user", "berth-test", nullptr, 0));
}
int keyctl(const Words&)
{
    return outcome(::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1));
}

/// Calls that the kernel refuses anyway for want of a capability; here for the error number that
/// only the filter gives: bad arguments would be EINVAL, EFAULT, EBADF or ENOENT.
int load_module(const Words&) { return outcome(::syscall(SYS_finit_module, -1, "", 0)); }
int kexec(const Words&) { return outcome(::syscall(SYS_kexec_load, 0, 0, nullptr, 0)); }
int reboot(const Words&) { return outcome(::syscall(SYS_reboot, 0, 0, 0, nullptr)); }
int swap(const Words&) { return outcome(::syscall(SYS_swapon, "/none", 0)); }
int account(const Words&) { return outcome(::syscall(SYS_acct, "/none")); }
int kernel_log(const Words&)
{
    char text[16];
    return outcome(::syscall(SYS_syslog, 3 /* read all */, text, sizeof text));
}
int set_clock(const Words&)
{
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return outcome(::clock_settime(CLOCK_REALTIME, &now));
}
int ports(const Words&) { return outcome(::syscall(SYS_iopl, 3)); }
int quota(const Words&) { return outcome(::syscall(SYS_quotactl, 0, nullptr, 0, nullptr)); }
int memory_policy(const Words&) { return outcome(::syscall(SYS_set_mempolicy, 0, nullptr, 0)); }
int personality_of(const Words& w) { return outcome(::personality(std::stoul(w.at(0), nullptr, 16))); }

/// Runs something that may end in a signal and says which.
int in_child(int (*act)())
{
    const pid_t child = ::fork();
    if (child < 0) return errno;
    if (child == 0) ::_exit(act());
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) return say(std::string("killed ") + ::sigabbrev_np(WTERMSIG(status)));
    return WEXITSTATUS(status);
}

/// getpid under its number of 1990; the same door leads to every call the filter knows by another number.
int call_i386(const Words&)
{
    return in_child([] {
        long result = 20;
        asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        return result < 0 ? static_cast<int>(-result) : 0;
    });
}

int call_x32(const Words&)
{
    return in_child([] { return outcome(::syscall(0x40000000 | SYS_getpid)); });
}
/// A number with the x32 bit that would be mount.
int mount_x32(const Words&)
{
    return in_child([] { return outcome(::syscall(0x40000000 | SYS_mount, "a", "/", "tmpfs", 0, nullptr)); });
}

/// On a terminal of our own: what is tested is the call, not whose terminal it is.
int terminal_call(unsigned long request)
{
    const int master = ::open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (master < 0) return errno;
    char byte = 'x';
    return outcome(::syscall(SYS_ioctl, master, request, &byte));
}
int push_input(const Words&) { return terminal_call(TIOCSTI); }
/// A 32-bit request in a 64-bit register: a filter that compares all of it would let this pass.
int push_input_high(const Words&) { return terminal_call(0x1'0000'0000ul | TIOCSTI); }
int console_call(const Words&) { return terminal_call(TIOCLINUX); }
int window_size(const Words&)
{
    winsize size{};
    const int master = ::open("/dev/ptmx", O_RDWR | O_NOCTTY);
    return master < 0 ? errno : outcome(::ioctl(master, TIOCGWINSZ, &size));
}

constexpr Entry kEntries[] = {
    {"io-uring", io_uring},
    {"epoll", epoll},
    {"bpf", bpf},
    {"perf", perf},
    {"userfaultfd", userfault},
    {"fanotify", fanotify},
    {"add-key", add_key},
    {"request-key", request_key},
    {"keyctl", keyctl},
    {"load-module", load_module},
    {"kexec", kexec},
    {"reboot", reboot},
    {"swapon", swap},
    {"acct", account},
    {"syslog", kernel_log},
    {"set-clock", set_clock},
    {"iopl", ports},
    {"quotactl", quota},
    {"mempolicy", memory_policy},
    {"personality", personality_of},
    {"i386", call_i386},
    {"x32", call_x32},
    {"x32-mount", mount_x32},
    {"tiocsti", push_input},
    {"tiocsti-high", push_input_high},
    {"tioclinux", console_call},
    {"window-size", window_size},
};

} // namespace

std::span<const Entry> kernel_probes() { return kEntries; }

} // namespace probe
