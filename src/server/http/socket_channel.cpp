#include "server/http/socket_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace berth::http {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kLookAgain = 300ms;

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

    Task<Status> write(std::string_view bytes, SteadyTime until) override
    {
        write_until_ = until;
        auto [error, n] =
            co_await asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), as_value);
        write_until_ = kNever;
        if (error) co_return std::unexpected(channel_error(error, late_));
        co_return Status{};
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
    StreamSocket socket_;
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
