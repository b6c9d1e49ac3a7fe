// Opening, in the caller's place: what was looked at is what is opened, and the caller gets that descriptor.
#include <fcntl.h>
#include <pthread.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

constexpr int kMaxWaiters = 256;
constexpr int kMaxTries = 64;
constexpr long kRestart = -512; // ERESTARTSYS: a signal comes first, then the call again if it says so

/// Somebody who opens something that may block: a pipe with nobody at its other end, a device. It has a
/// thread of its own, so that whoever comes to the other end is heard.
struct Waiter {
    seccomp_notif asked{};
    int listener = -1;
    int object = -1;
    int flags = 0;
    pthread_t thread{};
    bool used = false;
    bool done = false;        ///< by the thread, the last it does
    bool interrupted = false; ///< to the thread, before its signal
};
Waiter all_waiters[kMaxWaiters];
int waiting = 0;

int reopen(int object, int flags)
{
    return ::open(Link(object).text, (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) | O_CLOEXEC | O_NOCTTY);
}

void* wait_open(void* argument)
{
    auto& waiter = *static_cast<Waiter*>(argument);
    const Call call{.listener = waiter.listener, .asked = &waiter.asked};
    sigset_t cancel;
    ::sigemptyset(&cancel);
    ::sigaddset(&cancel, SIGUSR1);
    ::pthread_sigmask(SIG_UNBLOCK, &cancel, nullptr);
    int fd = -1;
    do fd = reopen(waiter.object, waiter.flags);
    while (fd < 0 && errno == EINTR && call.valid() &&
           !__atomic_load_n(&waiter.interrupted, __ATOMIC_ACQUIRE));
    if (fd >= 0)
        call.inject(fd, waiter.flags);
    else
        call.answer(errno == EINTR ? kRestart : -errno);
    if (fd >= 0) ::close(fd);
    ::close(waiter.object);
    __atomic_store_n(&waiter.done, true, __ATOMIC_RELEASE);
    return nullptr;
}

long open_apart(const Call& call, Object& object, int flags)
{
    if (waiting == kMaxWaiters) tend_waiters(call.listener);
    for (Waiter& waiter : all_waiters) {
        if (waiter.used) continue;
        waiter = Waiter{};
        waiter.asked = *call.asked;
        waiter.listener = call.listener;
        waiter.object = object.fd.release();
        waiter.flags = flags;
        pthread_attr_t attributes;
        ::pthread_attr_init(&attributes);
        ::pthread_attr_setstacksize(&attributes, 64 << 10);
        const int error = ::pthread_create(&waiter.thread, &attributes, wait_open, &waiter);
        ::pthread_attr_destroy(&attributes);
        waiter.used = error == 0;
        if (error == 0) return ++waiting, kAnswered;
        ::close(waiter.object);
        return -error;
    }
    return -ENFILE;
}

/// The terminal that controls the caller. Ours is none.
long own_terminal(const Call& call, int flags)
{
    char path[48];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", call.thread());
    const Fd stat(::open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t n = stat ? ::read(stat.get(), text, sizeof text - 1) : -1;
    if (n <= 0 || !call.valid()) return -ENXIO;
    text[n] = 0;
    const char* const at = strrchr(text, ')'); // state, parent, group, session, terminal
    int number = 0;
    if (at == nullptr || sscanf(at + 1, " %*c %*d %*d %*d %d", &number) != 1 || number == 0) return -ENXIO;
    const unsigned kind = static_cast<unsigned>(number) >> 8 & 0xfff;
    const unsigned which =
        (static_cast<unsigned>(number) & 0xff) | (static_cast<unsigned>(number) >> 12 & 0xfff00);
    if (kind != 136) return -ENXIO;
    snprintf(path, sizeof path, "/dev/pts/%u", which);
    const Fd fd(::open(path, (flags & ~(O_CREAT | O_EXCL)) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!fd) return -errno;
    if ((flags & O_NONBLOCK) == 0) ::fcntl(fd.get(), F_SETFL, flags & O_APPEND);
    call.inject(fd.get(), flags);
    return kAnswered;
}

/// Never blocks: asked for what may, it opens apart.
long open_object(const Call& call, Object& object, int flags)
{
    const mode_t kind = object.st.st_mode & S_IFMT;
    if (kind == S_IFLNK) return -ELOOP;
    if (kind == S_IFCHR && object.st.st_rdev == makedev(5, 0)) return own_terminal(call, flags);
    const bool quick = kind == S_IFREG || kind == S_IFDIR || kind == S_IFSOCK || (flags & O_NONBLOCK) != 0 ||
                       (kind == S_IFIFO && object.real[0] != '/') ||
                       (kind == S_IFCHR && major(object.st.st_rdev) == 1);
    if (!quick) return open_apart(call, object, flags);
    // A lease of somebody outside would make us wait for him.
    const bool patient = kind == S_IFREG && (flags & O_NONBLOCK) == 0;
    const Fd fd(reopen(object.fd.get(), flags | (patient ? O_NONBLOCK : 0)));
    if (!fd) return errno == EWOULDBLOCK && patient ? open_apart(call, object, flags) : -errno;
    if (patient) ::fcntl(fd.get(), F_SETFL, flags & (O_APPEND | O_DIRECT | O_NOATIME | O_ASYNC));
    call.inject(fd.get(), flags);
    return kAnswered;
}

long make_file(const Call& call, const Spot& spot, int flags, unsigned mode)
{
    if (spot.is_denied()) return refuse();
    if (const long r = take_umask(call); r < 0) return r;
    const Fd fd(::openat(spot.parent.fd.get(), spot.name,
                         flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode));
    if (!fd) return -errno;
    if ((flags & O_NONBLOCK) == 0)
        ::fcntl(fd.get(), F_SETFL, flags & (O_APPEND | O_DIRECT | O_NOATIME | O_ASYNC));
    call.inject(fd.get(), flags);
    return kAnswered;
}

/// One look at a name that may be made. 0: a link was put into `path` and `base`, look again.
long open_or_make(const Call& call, Fd& base, char (&path)[PATH_MAX], int flags, unsigned mode)
{
    Spot spot;
    if (const long r = resolve_spot(call, base.get(), path, spot); r < 0) return r;
    if (strcmp(spot.name, ".") == 0 || strcmp(spot.name, "..") == 0 || strchr(spot.name, '/') != nullptr)
        return -EISDIR;
    Object object;
    object.fd.reset(::openat(spot.parent.fd.get(), spot.name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!object.fd) {
        if (errno != ENOENT) return -errno;
        const long made = make_file(call, spot, flags, mode);
        // Somebody outside was faster: what he made is looked at.
        return made == -ELOOP || (made == -EEXIST && (flags & O_EXCL) == 0) ? 0 : made;
    }
    if (const long r = look(object); r < 0) return r;
    if (spot.is_denied()) return refuse();
    if ((flags & O_EXCL) != 0) return -EEXIST;
    if (!S_ISLNK(object.st.st_mode)) {
        if (S_ISDIR(object.st.st_mode)) return -EISDIR;
        if (object.is_denied()) return refuse();
        return open_object(call, object, flags);
    }
    if ((flags & O_NOFOLLOW) != 0) return -ELOOP;
    // The rest of the way is looked at like any other.
    Object there;
    const long found = resolve(call, spot.parent.fd.get(), spot.name, Last::Follow, there);
    if (found == 0) {
        if (there.is_denied()) return refuse();
        if (S_ISDIR(there.st.st_mode)) return -EISDIR;
        return open_object(call, there, flags);
    }
    if (found != -ENOENT) return found;
    const ssize_t n = ::readlinkat(spot.parent.fd.get(), spot.name, path, sizeof path - 1);
    if (n <= 0) return n < 0 ? -errno : -ENOENT;
    path[n] = 0;
    base = static_cast<Fd&&>(spot.parent.fd);
    return 0;
}

} // namespace

int waiters() { return waiting; }

int tend_waiters(int listener)
{
    for (Waiter& waiter : all_waiters) {
        if (!waiter.used) continue;
        if (__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE)) {
            ::pthread_join(waiter.thread, nullptr);
            waiter.used = false;
            --waiting;
            continue;
        }
        const Call call{.listener = listener, .asked = &waiter.asked};
        Status status;
        const bool signalled = read_status(call.thread(), status) && status.interrupting != 0;
        if (call.valid() && !signalled) continue;
        __atomic_store_n(&waiter.interrupted, true, __ATOMIC_RELEASE);
        ::pthread_kill(waiter.thread, SIGUSR1); // again at the next look, if it came before the call
    }
    return waiting;
}

long open_file(const Call& call, int dirfd, std::uint64_t address, int flags, unsigned mode)
{
    char path[PATH_MAX];
    Fd base;
    if (const long r = read_text(call, address, path); r < 0) return r;
    if (path[0] == 0) return -ENOENT;
    if (const long r = read_base(call, dirfd, path, base); r < 0) return r;
    if (spelled_denied(base.get(), path)) return refuse();
    if ((flags & O_CREAT) != 0 && (flags & O_DIRECTORY) == 0) {
        for (int tries = 0; tries < kMaxTries; ++tries)
            if (const long r = open_or_make(call, base, path, flags, mode); r != 0) return r;
        return -ELOOP;
    }
    if ((flags & O_CREAT) != 0) return -EINVAL; // and a directory: newer kernels say so, too
    Object object;
    const Last last = (flags & O_NOFOLLOW) != 0 ? Last::Keep : Last::Follow;
    if (const long r = resolve(call, base.get(), path, last, object); r < 0) return r;
    if (object.is_denied()) return refuse();
    if ((flags & O_TMPFILE) != O_TMPFILE) return open_object(call, object, flags);
    if (!S_ISDIR(object.st.st_mode)) return -ENOTDIR;
    if (const long r = take_umask(call); r < 0) return r;
    const Fd fd(::open(Link(object.fd.get()).text, flags | O_CLOEXEC, mode));
    if (!fd) return -errno;
    call.inject(fd.get(), flags);
    return kAnswered;
}

} // namespace berth::supervisor
