// What belongs to the thread that called: its memory, its directories, its rights.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kPowers = 1ull << CAP_SYS_PTRACE | 1ull << CAP_KILL;
constexpr std::uint64_t kSwitching = 1ull << CAP_SETUID | 1ull << CAP_SETGID;

std::uint64_t acting = 0; // the capabilities of the caller, of those that we have

void set_effective(std::uint64_t wanted)
{
    __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2]{};
    if (::syscall(SYS_capget, &head, &data[0]) != 0) return;
    data[0].effective = static_cast<std::uint32_t>(wanted) & data[0].permitted;
    data[1].effective = static_cast<std::uint32_t>(wanted >> 32) & data[1].permitted;
    ::syscall(SYS_capset, &head, &data[0]);
}

/// The text of /proc/N/status.
bool status_text(pid_t thread, char (&text)[4096])
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/status", thread);
    const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
    if (!fd) return false;
    const ssize_t n = ::read(fd.get(), text, sizeof text - 1);
    if (n <= 0) return false;
    text[n] = 0;
    return true;
}

/// The value of a line; null when there is none.
const char* value_of(const char* text, const char* name)
{
    const char* const at = strstr(text, name);
    return at == nullptr ? nullptr : at + strlen(name);
}

std::uint64_t hex_of(const char* text, const char* name)
{
    const char* const at = value_of(text, name);
    return at == nullptr ? 0 : strtoull(at, nullptr, 16);
}

/// The fourth of four ids: the one for files.
long file_id(const char* at)
{
    if (at == nullptr) return -1;
    char* end = nullptr;
    long value = -1;
    for (int i = 0; i < 4; ++i, at = end) value = strtol(at, &end, 10);
    return value;
}

long fetch(const Call& call, std::uint64_t address, void* out, std::size_t size)
{
    const iovec mine{.iov_base = out, .iov_len = size};
    const iovec theirs{.iov_base = reinterpret_cast<void*>(address), .iov_len = size};
    ssize_t n = ::process_vm_readv(call.thread(), &mine, 1, &theirs, 1, 0);
    if (n < 0 && errno == EPERM) {
        raise_powers();
        n = ::process_vm_readv(call.thread(), &mine, 1, &theirs, 1, 0);
        lower_powers();
    }
    return n < 0 ? -errno : n;
}

long open_of(const Call& call, const char* what, int number, Fd& out)
{
    char path[64];
    if (number < 0)
        snprintf(path, sizeof path, "/proc/%d/%s", call.thread(), what);
    else
        snprintf(path, sizeof path, "/proc/%d/%s/%d", call.thread(), what, number);
    raise_powers();
    out.reset(::open(path, O_PATH | O_CLOEXEC));
    int error = errno;
    // The descriptors of who is not dumpable stand in a directory of root's.
    if (!out && error == EACCES && number >= 0) {
        const Fd process(::syscall(SYS_pidfd_open, call.thread(), 0));
        out.reset(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), number, 0)));
        error = errno;
    }
    lower_powers();
    if (!out) return error == ENOENT && number >= 0 ? -EBADF : -error;
    return 0;
}

} // namespace

bool Call::valid() const
{
    std::uint64_t id = asked->id;
    return ::ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

void Call::answer(long value) const
{
    seccomp_notif_resp response{};
    response.id = asked->id;
    if (value < 0)
        response.error = static_cast<int>(value);
    else
        response.val = value;
    ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response); // it may be gone, which is its affair
}

void Call::inject(int fd, int flags) const
{
    seccomp_notif_addfd give{};
    give.id = asked->id;
    give.flags = SECCOMP_ADDFD_FLAG_SEND;
    give.srcfd = static_cast<std::uint32_t>(fd);
    give.newfd_flags = static_cast<std::uint32_t>(flags & O_CLOEXEC);
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &give) < 0 && errno != ENOENT) answer(-errno);
}

void raise_powers() { set_effective(acting | kPowers); }
void lower_powers() { set_effective(acting); }

bool read_status(pid_t thread, Status& out)
{
    char text[4096];
    raise_powers();
    const bool there = status_text(thread, text);
    lower_powers();
    if (!there) return false;
    const char* const process = value_of(text, "\nTgid:");
    const char* const mask = value_of(text, "\nUmask:");
    if (process == nullptr || mask == nullptr) return false;
    out.process = static_cast<pid_t>(strtol(process, nullptr, 10));
    out.umask = static_cast<unsigned>(strtoul(mask, nullptr, 8));
    out.interrupting = (hex_of(text, "\nSigPnd:") | hex_of(text, "\nShdPnd:")) & ~hex_of(text, "\nSigBlk:") &
                       ~hex_of(text, "\nSigIgn:");
    return true;
}

long read_text(const Call& call, std::uint64_t address, char (&out)[PATH_MAX])
{
    // Up to the end of each page: what comes after it may not be there.
    for (std::size_t have = 0; have < sizeof out;) {
        std::size_t size = kPage - (address + have) % kPage;
        if (size > sizeof out - have) size = sizeof out - have;
        const long n = fetch(call, address + have, out + have, size);
        if (n <= 0) return n < 0 ? n : -EFAULT;
        if (memchr(out + have, 0, static_cast<std::size_t>(n)) != nullptr) return call.valid() ? 0 : -ESRCH;
        have += static_cast<std::size_t>(n);
    }
    return -ENAMETOOLONG;
}

long read_bytes(const Call& call, std::uint64_t address, void* out, std::size_t size)
{
    const long n = fetch(call, address, out, size);
    if (n != static_cast<long>(size)) return n < 0 ? n : -EFAULT;
    return call.valid() ? 0 : -ESRCH;
}

long read_base(const Call& call, int dirfd, const char* path, Fd& out)
{
    if (path[0] == '/') return 0;
    long r = 0;
    if (dirfd == AT_FDCWD)
        r = open_of(call, "cwd", -1, out);
    else if (dirfd < 0)
        r = -EBADF;
    else
        r = open_of(call, "fd", dirfd, out);
    if (r == 0 && !call.valid()) return -ESRCH;
    return r;
}

long take_umask(const Call& call)
{
    Status status;
    if (!read_status(call.thread(), status) || !call.valid()) return -ESRCH;
    ::umask(status.umask);
    return 0;
}

long act_as(const Call& call)
{
    static bool settled = false;
    if (config().one_user != 0) {
        if (!settled && ::geteuid() != config().uid) {
            ::syscall(SYS_setfsgid, config().gid);
            ::syscall(SYS_setfsuid, config().uid);
            if (::syscall(SYS_setfsuid, -1) != static_cast<long>(config().uid) ||
                ::syscall(SYS_setfsgid, -1) != static_cast<long>(config().gid))
                return -EPERM;
        }
        if (!settled) lower_powers();
        settled = true;
        return 0;
    }
    char text[4096];
    acting = 0;
    raise_powers();
    const bool there = status_text(call.thread(), text);
    const long uid = file_id(there ? value_of(text, "\nUid:") : nullptr);
    const long gid = file_id(there ? value_of(text, "\nGid:") : nullptr);
    if (uid < 0 || gid < 0 || !call.valid()) return -ESRCH;
    gid_t groups[64];
    std::size_t count = 0;
    if (const char* at = value_of(text, "\nGroups:"); at != nullptr)
        for (char* end = nullptr; *at != '\n' && *at != 0; at = end) {
            const auto group = static_cast<gid_t>(strtoul(at, &end, 10));
            if (end == at) break;
            if (count == sizeof groups / sizeof groups[0]) return -EPERM;
            groups[count++] = group;
            while (*end == ' ' || *end == '\t') ++end;
        }
    set_effective(kPowers | kSwitching);
    ::syscall(SYS_setfsuid, 0);
    ::syscall(SYS_setfsgid, gid);
    const long grouped = ::syscall(SYS_setgroups, count, count == 0 ? nullptr : groups);
    ::syscall(SYS_setfsuid, uid);
    acting = hex_of(text, "\nCapEff:");
    lower_powers();
    if (grouped != 0 || ::syscall(SYS_setfsuid, -1) != uid || ::syscall(SYS_setfsgid, -1) != gid)
        return -EPERM;
    return 0;
}

} // namespace berth::supervisor
