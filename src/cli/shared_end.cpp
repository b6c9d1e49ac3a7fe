#include "cli/shared_end.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/unique_fd.hpp"

namespace berth::cli {

namespace asio = boost::asio;

namespace {

// A pipe that poll calls writable takes PIPE_BUF bytes without blocking; not one more is sure.
constexpr std::size_t kSure = 4096;

} // namespace

Result<SharedEnd> SharedEnd::open(const asio::any_io_executor& loop, int fd, Use use)
{
    struct stat st{};
    if (::fstat(fd, &st) != 0) return fail_errno("looking at descriptor {}", fd);
    const Kind kind = S_ISSOCK(st.st_mode) ? Kind::Socket : Kind::Other;
    UniqueFd gate(::epoll_create1(EPOLL_CLOEXEC));
    if (!gate) return fail_errno("making an epoll descriptor");
    epoll_event event{};
    event.events = use == Use::Read ? EPOLLIN : EPOLLOUT;
    if (::epoll_ctl(gate.get(), EPOLL_CTL_ADD, fd, &event) == 0)
        return SharedEnd(fd, kind, asio::posix::stream_descriptor(loop, gate.release()));
    // EPERM: regular files and their like, which never block.
    if (errno != EPERM) return fail_errno("waiting for descriptor {}", fd);
    return SharedEnd(fd, Kind::File, asio::posix::stream_descriptor(loop));
}

bool SharedEnd::ready_now(short events) const
{
    pollfd set{.fd = fd_, .events = events, .revents = 0};
    return ::poll(&set, 1, 0) > 0;
}

Task<void> SharedEnd::ready()
{
    if (kind_ == Kind::File) co_return;
    co_await gate_.async_wait(asio::posix::descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
}

Task<std::string> SharedEnd::read(std::size_t most)
{
    std::string bytes(most, '\0');
    for (;;) {
        // Somebody else may have read what made it ready: never read without looking.
        if (kind_ != Kind::File && !ready_now(POLLIN)) {
            co_await ready();
            continue;
        }
        const ssize_t n = ::read(fd_, bytes.data(), bytes.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0); // EIO is how a terminal ends
        co_return bytes;
    }
}

Task<bool> SharedEnd::write(std::string bytes)
{
    std::string_view left = bytes;
    while (!left.empty()) {
        if (kind_ != Kind::File && !ready_now(POLLOUT)) {
            co_await ready();
            continue;
        }
        ssize_t n = 0;
        if (kind_ == Kind::Socket)
            n = ::send(fd_, left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        else
            n = ::write(fd_, left.data(), kind_ == Kind::File ? left.size() : std::min(left.size(), kSure));
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) {
            error_ = errno;
            co_return false;
        }
        left.remove_prefix(static_cast<std::size_t>(n));
    }
    co_return true;
}

} // namespace berth::cli
