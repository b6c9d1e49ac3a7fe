// From a path to what lies there, as the caller would find it. The kernel walks, and we only where the answer
// depends on who asks: /proc/self is the caller, not we, and the links in /proc lead to objects, not to
// paths. The caller's root is ours, for nobody under the filter can change his.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

constexpr int kMaxLinks = 40;
constexpr char kDeleted[] = " (deleted)";

dev_t proc_device = 0;
ino_t proc_root = 0;

/// Part of ourselves: the kernel would let us in where the caller has no business.
bool is_ours(const char* real)
{
    if (strncmp(real, "/proc/", 6) != 0 || real[6] < '0' || real[6] > '9') return false;
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%lu", strtoul(real + 6, nullptr, 10));
    return ::access(path, F_OK) == 0;
}

/// Text of which the first part is read and taken off again and again, and links are put in front.
class Rest {
public:
    explicit Rest(const char* path) { ok_ = strlen(path) < sizeof text_ && strcpy(text_, path) != nullptr; }
    [[nodiscard]] bool fits() const { return ok_; }
    [[nodiscard]] bool absolute() const { return *at_ == '/'; }
    bool put_in_front(const char* link)
    {
        char joined[PATH_MAX];
        const int n = snprintf(joined, sizeof joined, "%s%s%s", link, *at_ != 0 ? "/" : "", at_);
        if (n < 0 || static_cast<std::size_t>(n) >= sizeof joined) return false;
        memcpy(text_, joined, static_cast<std::size_t>(n) + 1);
        at_ = text_;
        return true;
    }
    /// 1: there is one more; 0: none; otherwise an error.
    long next(char (&name)[NAME_MAX + 1])
    {
        while (*at_ == '/') ++at_;
        std::size_t n = 0;
        while (at_[n] != 0 && at_[n] != '/') ++n;
        if (n > NAME_MAX) return -ENAMETOOLONG;
        memcpy(name, at_, n);
        name[n] = 0;
        at_ += n;
        return n == 0 ? 0 : 1;
    }
    [[nodiscard]] bool last() const { return at_[strspn(at_, "/")] == 0; }
    [[nodiscard]] bool slash() const { return *at_ == '/'; }

private:
    char text_[PATH_MAX] = {};
    const char* at_ = text_;
    bool ok_ = false;
};

/// Links in directories where everybody may make some are followed for their owners alone, as the kernel
/// does where it is told to.
bool distrusted(int directory, const struct stat& link)
{
    struct stat above{};
    if (::fstat(directory, &above) != 0) return true;
    const bool shared = (above.st_mode & S_ISVTX) != 0 && (above.st_mode & S_IWOTH) != 0;
    const auto me = static_cast<uid_t>(::syscall(SYS_setfsuid, -1));
    return shared && link.st_uid != me && link.st_uid != above.st_uid;
}

long follow_in_proc(const Call& call, const Fd& directory, const char* name, Rest& rest, Fd& jumped)
{
    struct stat above{};
    if (::fstat(directory.get(), &above) != 0) return -errno;
    if (above.st_ino == proc_root) {
        char text[PATH_MAX];
        const bool thread = strcmp(name, "thread-self") == 0;
        if (thread || strcmp(name, "self") == 0) {
            Status status;
            if (!read_status(call.thread(), status) || !call.valid()) return -ESRCH;
            if (thread)
                snprintf(text, sizeof text, "%d/task/%d", status.process, call.thread());
            else
                snprintf(text, sizeof text, "%d", status.process);
        } else {
            const ssize_t n = ::readlinkat(directory.get(), name, text, sizeof text - 1);
            if (n < 0) return -errno;
            text[n] = 0;
        }
        return rest.put_in_front(text) ? 0 : -ENAMETOOLONG;
    }
    char real[PATH_MAX];
    const ssize_t n = ::readlink(Link(directory.get()).text, real, sizeof real - 1);
    if (n < 0) return -errno;
    real[n] = 0;
    if (is_ours(real)) return -EACCES;
    jumped.reset(::openat(directory.get(), name, O_PATH | O_CLOEXEC));
    return jumped ? 0 : -errno;
}

/// One step. What stands in /proc about the caller it may look at itself, also where nobody else may and the
/// kernel takes us for somebody else. `own` tells that `at` lies there; `st` is what was found.
Fd step(const Call& call, const Fd& at, const char* name, bool& own, struct stat& st)
{
    if (::fstat(at.get(), &st) == 0 && st.st_dev == proc_device && st.st_ino == proc_root) {
        Status status;
        char self[24] = {};
        own = name[0] >= '0' && name[0] <= '9' && read_status(call.thread(), status) && call.valid() &&
              snprintf(self, sizeof self, "%d", status.process) > 0 && strcmp(name, self) == 0;
    }
    if (own) raise_powers();
    Fd next(::openat(at.get(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    int error = errno;
    if (next && ::fstat(next.get(), &st) != 0) {
        error = errno;
        next.reset(-1);
    }
    if (own) lower_powers();
    errno = error;
    return next;
}

long walk(const Call& call, int base, const char* path, Last last, Fd& out)
{
    Rest rest(path);
    if (!rest.fits()) return -ENAMETOOLONG;
    const auto from = [&](bool root) {
        return Fd(root ? ::open("/", O_PATH | O_CLOEXEC) : ::openat(base, ".", O_PATH | O_CLOEXEC));
    };
    Fd at = from(rest.absolute());
    if (!at) return -errno;
    char name[NAME_MAX + 1];
    bool own = false;
    for (int links = 0;;) {
        const long more = rest.next(name);
        if (more <= 0) {
            if (more == 0) out = static_cast<Fd&&>(at);
            return more;
        }
        const bool directory = !rest.last() || rest.slash();
        struct stat st{};
        Fd next = step(call, at, name, own, st);
        if (!next) return -errno;
        if (S_ISLNK(st.st_mode) && (directory || last == Last::Follow)) {
            if (++links > kMaxLinks) return -ELOOP;
            own = false;
            if (st.st_dev == proc_device) {
                Fd jumped;
                if (const long r = follow_in_proc(call, at, name, rest, jumped); r < 0) return r;
                if (jumped) at = static_cast<Fd&&>(jumped);
                continue;
            }
            if (distrusted(at.get(), st)) return -EACCES;
            char text[PATH_MAX];
            const ssize_t n = ::readlinkat(next.get(), "", text, sizeof text - 1);
            if (n <= 0) return n < 0 ? -errno : -ENOENT;
            text[n] = 0;
            if (!rest.put_in_front(text)) return -ENAMETOOLONG;
            if (text[0] == '/') at = from(true);
            if (!at) return -errno;
            continue;
        }
        if (directory && !S_ISDIR(st.st_mode)) return -ENOTDIR;
        at = static_cast<Fd&&>(next);
    }
}

} // namespace

Link::Link(int fd) { snprintf(text, sizeof text, "/proc/self/fd/%d", fd); }

void find_proc()
{
    struct stat st{};
    if (::stat("/proc", &st) != 0) _exit(1);
    proc_device = st.st_dev;
    proc_root = st.st_ino;
}

long look(Object& out)
{
    if (::fstat(out.fd.get(), &out.st) != 0) return -errno;
    const ssize_t n = ::readlink(Link(out.fd.get()).text, out.real, sizeof out.real - 1);
    if (n < 0) return -errno;
    out.real[n] = 0;
    if (out.st.st_dev == proc_device && is_ours(out.real)) return -EACCES;
    return 0;
}

bool Object::is_denied() const
{
    if (real[0] != '/') return false; // a pipe, a socket: nothing that has a name
    const std::string_view whole(real);
    if (denied(whole)) return true;
    constexpr std::size_t tail = sizeof kDeleted - 1;
    // What it was called as long as it had a name.
    return whole.size() > tail && strcmp(real + whole.size() - tail, kDeleted) == 0 &&
           denied({real, whole.size() - tail});
}

long resolve(const Call& call, int base, const char* path, Last last, Object& out)
{
    if (path[0] == 0) return -ENOENT;
    open_how how{};
    how.flags = static_cast<std::uint64_t>(O_PATH | O_CLOEXEC | (last == Last::Keep ? O_NOFOLLOW : 0));
    how.resolve = RESOLVE_NO_MAGICLINKS;
    out.fd.reset(static_cast<int>(::syscall(SYS_openat2, base, path, &how, sizeof how)));
    // Whatever failed may have failed in /proc/self, and been ours.
    if (!out.fd || ::fstat(out.fd.get(), &out.st) != 0 || out.st.st_dev == proc_device)
        if (const long r = walk(call, base, path, last, out.fd); r < 0) return r;
    return look(out);
}

long resolve_spot(const Call& call, int base, const char* path, Spot& out)
{
    if (path[0] == 0) return -ENOENT;
    std::size_t end = strlen(path);
    const bool slash = path[end - 1] == '/';
    while (end > 1 && path[end - 1] == '/') --end;
    std::size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') --begin;
    if (end - begin > NAME_MAX) return -ENAMETOOLONG;
    memcpy(out.name, path + begin, end - begin);
    if (slash && end > begin) out.name[end - begin] = '/';
    if (end == begin) strcpy(out.name, "."); // the root itself
    char above[PATH_MAX];
    memcpy(above, path, begin);
    above[begin] = 0;
    if (const long r = resolve(call, base, begin == 0 ? "." : above, Last::Follow, out.parent); r < 0)
        return r;
    if (!S_ISDIR(out.parent.st.st_mode)) return -ENOTDIR;
    const bool top = strcmp(out.parent.real, "/") == 0;
    const int n = snprintf(out.real, sizeof out.real, "%s/%.*s", top ? "" : out.parent.real,
                           static_cast<int>(end - begin), path + begin);
    return n < 0 || static_cast<std::size_t>(n) >= sizeof out.real ? -ENAMETOOLONG : 0;
}

bool spelled_denied(int base, const char* path)
{
    if (strstr(path, "..") != nullptr) return false; // a text alone cannot tell where that is
    if (path[0] == '/') return denied(path);
    char whole[2 * PATH_MAX];
    const ssize_t n = ::readlink(Link(base).text, whole, PATH_MAX - 1);
    if (n <= 0) return true;
    snprintf(whole + n, sizeof whole - static_cast<std::size_t>(n), "/%s", path);
    return denied(whole);
}

} // namespace berth::supervisor
