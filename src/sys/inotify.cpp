#include "sys/inotify.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <cstring>

namespace berth::sys {

namespace {

constexpr std::uint32_t kWanted = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY |
                                  IN_ATTRIB | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;
constexpr std::size_t kReadSize = std::size_t{64} << 10;

DirectoryEvent event_of(const inotify_event& raw, const char* name)
{
    using enum DirectoryEvent::Kind;
    DirectoryEvent out;
    out.watch = raw.wd;
    out.directory = (raw.mask & IN_ISDIR) != 0;
    out.move = raw.cookie;
    if (raw.len > 0) out.name = name; // ends with NUL within len
    if ((raw.mask & IN_Q_OVERFLOW) != 0)
        out.kind = Overflow;
    else if ((raw.mask & IN_IGNORED) != 0)
        out.kind = Gone;
    else if ((raw.mask & IN_CREATE) != 0)
        out.kind = Created;
    else if ((raw.mask & IN_DELETE) != 0)
        out.kind = Removed;
    else if ((raw.mask & (IN_MOVED_FROM | IN_MOVE_SELF)) != 0)
        out.kind = MovedFrom;
    else if ((raw.mask & IN_MOVED_TO) != 0)
        out.kind = MovedTo;
    else if ((raw.mask & IN_ATTRIB) != 0)
        out.kind = Attributes;
    return out;
}

} // namespace

Result<Inotify> Inotify::open()
{
    UniqueFd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (!fd && errno == EMFILE)
        return fail(Code::Exhausted, "no inotify instance is left for this user: raise "
                                     "fs.inotify.max_user_instances (sysctl)");
    if (!fd) return fail_errno("making an inotify instance");
    return Inotify(std::move(fd));
}

Result<int> Inotify::add(int directory) const
{
    // The magic link of our own descriptor leads to exactly the object that was resolved.
    const std::string link = fmt::format("/proc/thread-self/fd/{}", directory);
    const int watch = ::inotify_add_watch(fd_.get(), link.c_str(), kWanted);
    if (watch < 0 && errno == ENOSPC)
        return fail(Code::Exhausted,
                    "no more directories can be watched: raise fs.inotify.max_user_watches (sysctl)");
    if (watch < 0) return fail_errno("watching a directory");
    return watch;
}

void Inotify::remove(int watch) const noexcept { ::inotify_rm_watch(fd_.get(), watch); }

Result<std::vector<DirectoryEvent>> Inotify::read() const
{
    alignas(inotify_event) char buffer[kReadSize];
    std::vector<DirectoryEvent> out;
    const ssize_t n = ::read(fd_.get(), &buffer[0], sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return out;
    if (n < 0) return fail_errno("reading changes of files");
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(n);) {
        inotify_event raw{};
        std::memcpy(&raw, &buffer[at], sizeof raw);
        out.push_back(event_of(raw, &buffer[at + sizeof raw]));
        at += sizeof raw + raw.len;
    }
    return out;
}

} // namespace berth::sys
