// Length, mode, owner and times of what a path names. Calls on descriptors are not asked about: nobody has
// one of what is denied.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

constexpr long kFchmodat2 = 452;

constexpr int kOrDescriptor = 1 << 30; // no path at all means the descriptor

/// `flags`: AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, kOrDescriptor.
long object_of(const Call& call, int dirfd, std::uint64_t address, int flags, Object& out)
{
    if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | kOrDescriptor)) != 0) return -EINVAL;
    if (address == 0 && (flags & kOrDescriptor) == 0) return -EFAULT;
    char path[PATH_MAX] = {};
    Fd base;
    if (address != 0)
        if (const long r = read_text(call, address, path); r < 0) return r;
    if (const long r = read_base(call, dirfd, path, base); r < 0) return r;
    if (path[0] == 0) {
        if (address != 0 && (flags & AT_EMPTY_PATH) == 0) return -ENOENT;
        out.fd = static_cast<Fd&&>(base);
        if (const long r = look(out); r < 0) return r;
    } else {
        if (spelled_denied(base.get(), path)) return refuse();
        const Last last = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Last::Keep : Last::Follow;
        if (const long r = resolve(call, base.get(), path, last, out); r < 0) return r;
    }
    return out.is_denied() ? refuse() : 0;
}

long outcome(long r) { return r < 0 ? -errno : r; }

long set_mode(const Call& call, int dirfd, std::uint64_t path, unsigned mode, int flags)
{
    Object object;
    if ((flags & kOrDescriptor) != 0) return -EINVAL;
    if (const long r = object_of(call, dirfd, path, flags, object); r < 0) return r;
    if (S_ISLNK(object.st.st_mode)) return -EOPNOTSUPP;
    return outcome(::chmod(Link(object.fd.get()).text, mode));
}

long set_owner(const Call& call, int dirfd, std::uint64_t path, unsigned uid, unsigned gid, int flags)
{
    Object object;
    if ((flags & kOrDescriptor) != 0) return -EINVAL;
    if (const long r = object_of(call, dirfd, path, flags, object); r < 0) return r;
    return outcome(::fchownat(object.fd.get(), "", uid, gid, AT_EMPTY_PATH));
}

long set_length(const Call& call, std::uint64_t path, std::uint64_t length)
{
    Object object;
    if (const long r = object_of(call, AT_FDCWD, path, 0, object); r < 0) return r;
    return outcome(::truncate(Link(object.fd.get()).text, static_cast<off_t>(length)));
}

/// `given`: two times, or null for now.
long set_times(const Call& call, int dirfd, std::uint64_t path, const timespec* given, int flags)
{
    Object object;
    if ((flags & kOrDescriptor) != 0) return -EINVAL; // the caller's own bit
    const int how = flags | (dirfd == AT_FDCWD ? 0 : kOrDescriptor);
    if (const long r = object_of(call, dirfd, path, how, object); r < 0) return r;
    return outcome(::utimensat(AT_FDCWD, Link(object.fd.get()).text, given, 0));
}

long set_nanosecond_times(const Call& call)
{
    timespec times[2];
    const bool given = call.arg(2) != 0;
    if (given)
        if (const long r = read_bytes(call, call.arg(2), times, sizeof times); r < 0) return r;
    return set_times(call, call.word(0), call.arg(1), given ? times : nullptr, call.word(3));
}

long set_microsecond_times(const Call& call, int dirfd, std::uint64_t path, std::uint64_t address)
{
    timeval raw[2];
    timespec times[2];
    if (address != 0) {
        if (const long r = read_bytes(call, address, raw, sizeof raw); r < 0) return r;
        for (int i = 0; i < 2; ++i) {
            if (raw[i].tv_usec < 0 || raw[i].tv_usec >= 1'000'000) return -EINVAL;
            times[i] = {.tv_sec = raw[i].tv_sec, .tv_nsec = raw[i].tv_usec * 1000};
        }
    }
    return set_times(call, dirfd, path, address != 0 ? times : nullptr, 0);
}

long set_second_times(const Call& call)
{
    time_t raw[2];
    timespec times[2]{};
    if (call.arg(1) != 0) {
        if (const long r = read_bytes(call, call.arg(1), raw, sizeof raw); r < 0) return r;
        for (int i = 0; i < 2; ++i) times[i].tv_sec = raw[i];
    }
    return set_times(call, AT_FDCWD, call.arg(0), call.arg(1) != 0 ? times : nullptr, 0);
}

} // namespace

long change_attributes(const Call& call)
{
    const auto a = [&](unsigned i) { return call.arg(i); };
    const auto w = [&](unsigned i) { return call.word(i); };
    const auto u = [&](unsigned i) { return static_cast<unsigned>(call.word(i)); };
    switch (call.asked->data.nr) {
    case SYS_truncate: return set_length(call, a(0), a(1));
    case SYS_chmod: return set_mode(call, AT_FDCWD, a(0), u(1), 0);
    case SYS_fchmodat: return set_mode(call, w(0), a(1), u(2), 0);
    case kFchmodat2: return set_mode(call, w(0), a(1), u(2), w(3));
    case SYS_chown: return set_owner(call, AT_FDCWD, a(0), u(1), u(2), 0);
    case SYS_lchown: return set_owner(call, AT_FDCWD, a(0), u(1), u(2), AT_SYMLINK_NOFOLLOW);
    case SYS_fchownat: return set_owner(call, w(0), a(1), u(2), u(3), w(4));
    case SYS_utime: return set_second_times(call);
    case SYS_utimes: return set_microsecond_times(call, AT_FDCWD, a(0), a(1));
    case SYS_futimesat: return set_microsecond_times(call, w(0), a(1), a(2));
    case SYS_utimensat: return set_nanosecond_times(call);
    default: return -ENOSYS;
    }
}

} // namespace berth::supervisor
