#include "server/http/socket_channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace berth::http {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kLookAgain = 300ms;
constexpr std::size_t kFirst = 1024; // most requests are smaller
constexpr std::size_t kPiece = std::size_t{16} << 10;
constexpr std::size_t kParts = 4;

boost::system::error_code last_error() { return {errno, boost::system::system_category()}; }

/// What is left when `n` bytes of it are gone.
std::span<iovec> behind(std::span<iovec> parts, std::size_t n)
{
    while (!parts.empty() && n >= parts.front().iov_len) {
        n -= parts.front().iov_len;
        parts = parts.subspan(1);
    }
    if (parts.empty()) return parts;
    parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + n;
    parts.front().iov_len -= n;
    return parts;
}

class SocketChannel final : public Channel {
public:
    explicit SocketChannel(StreamSocket socket) : socket_(std::move(socket)) {}

    Task<Result<std::size_t>> read_some(std::span<char> into, SteadyTime until) override
    {
        read_until_ = until;
        auto [error, n] = co_await socket_.async_read_some(asio::buffer(into.data(), into.size()), as_value);
        read_until_ = kNever;
        if (error == asio::error::eof) co_return std::size_t{0};
        if (error) co_return std::unexpected(channel_error(error, late_));
        co_return n;
    }

    Task<Result<std::size_t>> read_behind(std::string& buffer, SteadyTime until) override
    {
        // A read that leaves nothing behind is the cheapest wait there is; one for readiness alone would be
        // told to the kernel each time. Small: most connections wait most of the time.
        read_until_ = until;
        auto [error, n] = co_await socket_.async_read_some(asio::buffer(first_), as_value);
        read_until_ = kNever;
        if (error == asio::error::eof) co_return std::size_t{0};
        if (error) co_return std::unexpected(channel_error(error, late_));
        buffer.append(first_.data(), n);
        if (n < first_.size()) co_return n;
        static thread_local std::array<char, kPiece> piece;
        const auto more = ::recv(socket_.native_handle(), piece.data(), piece.size(), MSG_DONTWAIT);
        if (more <= 0) co_return n; // what is wrong is told by the next one
        buffer.append(piece.data(), static_cast<std::size_t>(more));
        co_return n + static_cast<std::size_t>(more);
    }

    Task<Status> write_parts(std::span<const std::string_view> parts, SteadyTime until) override
    {
        std::array<iovec, kParts> all{};
        std::size_t count = 0;
        for (const auto part : parts)
            if (!part.empty()) all.at(count++) = {const_cast<char*>(part.data()), part.size()};
        return write_rest(all, count, until);
    }

    Task<Status> write(std::string_view bytes, SteadyTime until) override
    {
        return write_rest({iovec{const_cast<char*>(bytes.data()), bytes.size()}}, 1, until);
    }

    Task<void> gone() override { co_await peer_gone(socket_); }
    void end_writing() noexcept override
    {
        boost::system::error_code ignored;
        socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    }
    void close() noexcept override { close_socket(socket_, false); }
    void reset() noexcept override { close_socket(socket_, true); }

private:
    /// Most of what is written fits into the socket's room: it is tried at once, and only the rest is waited
    /// for. The pieces are copied, as this runs when whoever called has returned; their bytes are not.
    Task<Status> write_rest(std::array<iovec, kParts> all, std::size_t count, SteadyTime until)
    {
        for (std::span<iovec> rest(all.data(), count); !rest.empty();) {
            const auto n = send_some(rest);
            if (n >= 0) {
                rest = behind(rest, static_cast<std::size_t>(n));
                continue;
            }
            if (errno == EINTR) continue;
            if (errno != EAGAIN) co_return std::unexpected(channel_error(last_error(), late_));
            write_until_ = until;
            auto [error] = co_await socket_.async_wait(asio::socket_base::wait_write, as_value);
            write_until_ = kNever;
            if (error) co_return std::unexpected(channel_error(error, late_));
        }
        co_return Status{};
    }

    ssize_t send_some(std::span<iovec> parts)
    {
        constexpr int how = MSG_DONTWAIT | MSG_NOSIGNAL;
        const int fd = socket_.native_handle();
        if (parts.size() == 1) return ::send(fd, parts.front().iov_base, parts.front().iov_len, how);
        const msghdr message{.msg_iov = parts.data(), .msg_iovlen = parts.size()};
        return ::sendmsg(fd, &message, how);
    }

    StreamSocket socket_;
    std::array<char, kFirst> first_;
};

} // namespace

std::unique_ptr<Channel> make_channel(StreamSocket socket)
{
    return std::make_unique<SocketChannel>(std::move(socket));
}

Error channel_error(const boost::system::error_code& error, bool late)
{
    if (late) return {.code = Code::DeadlineExceeded, .message = "the connection stood still for too long"};
    return {.code = Code::Unavailable, .message = "the connection broke: " + error.message()};
}

/// A socket that has something to read may have been closed behind it: the kernel tells that apart.
Task<void> peer_gone(StreamSocket& socket)
{
    asio::steady_timer breath(co_await asio::this_coro::executor);
    for (;;) {
        auto [error] = co_await socket.async_wait(asio::socket_base::wait_read, as_value);
        if (error) co_return;
        pollfd look{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
        if (::poll(&look, 1, 0) != 0) co_return;
        breath.expires_after(kLookAgain);
        auto [stopped] = co_await breath.async_wait(as_value);
        if (stopped) co_return;
    }
}

void close_socket(StreamSocket& socket, bool reset) noexcept
{
    if (!socket.is_open()) return;
    boost::system::error_code ignored;
    if (reset) socket.set_option(asio::socket_base::linger(true, 0), ignored);
    socket.close(ignored);
}

} // namespace berth::http
