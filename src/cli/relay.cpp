#include "cli/relay.hpp"

#include <sys/socket.h>

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "base/clock.hpp"

namespace berth::cli {

namespace asio = boost::asio;

namespace {

using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kPiece = 64u << 10;

Task<void> pump(StreamSocket& from, StreamSocket& to)
{
    std::string buffer(kPiece, '\0');
    for (;;) {
        const auto [ended, n] = co_await from.async_read_some(asio::buffer(buffer), as_value);
        if (ended) break;
        const auto [refused, written] = co_await asio::async_write(to, asio::buffer(buffer, n), as_value);
        if (refused) break;
    }
    boost::system::error_code ignored; // it may be closed already
    to.shutdown(asio::socket_base::shutdown_send, ignored);
    // Who sends on although nobody reads is told so.
    from.shutdown(asio::socket_base::shutdown_receive, ignored);
}

Task<void> pump_in(SharedEnd& in, StreamSocket& peer)
{
    for (;;) {
        const std::string bytes = co_await in.read(kPiece);
        if (bytes.empty()) break;
        const auto [refused, n] = co_await asio::async_write(peer, asio::buffer(bytes), as_value);
        if (refused) break;
    }
    boost::system::error_code ignored;
    peer.shutdown(asio::socket_base::shutdown_send, ignored);
    asio::steady_timer for_ever(peer.get_executor(), SteadyTime::max());
    co_await for_ever.async_wait(as_value);
}

Task<void> pump_out(StreamSocket& peer, SharedEnd& out)
{
    std::string buffer(kPiece, '\0');
    for (;;) {
        const auto [ended, n] = co_await peer.async_read_some(asio::buffer(buffer), as_value);
        if (ended || !co_await out.write(buffer.substr(0, n))) co_return;
    }
}

} // namespace

Result<StreamSocket> stream_socket(const asio::any_io_executor& loop, UniqueFd socket)
{
    int family = 0;
    socklen_t size = sizeof family;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0)
        return fail_errno("looking at a connection");
    StreamSocket out(loop);
    boost::system::error_code error;
    out.assign(asio::generic::stream_protocol(family, 0), socket.get(), error);
    if (error) return fail(Code::Internal, "taking over a connection: {}", error.message());
    static_cast<void>(socket.release());
    return out;
}

Task<void> relay(StreamSocket& one, StreamSocket& other) { co_await (pump(one, other) && pump(other, one)); }

Task<void> relay(SharedEnd& in, SharedEnd& out, StreamSocket& peer)
{
    co_await (pump_in(in, peer) || pump_out(peer, out));
}

} // namespace berth::cli
