#include <sys/socket.h>

#include <cstring>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/scope_exit.hpp"
#include "keeping/kept_backend.hpp"

namespace berth::keeping {

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

constexpr auto kDialPatience = 10s;

/// The keeper's word about the port, and not trouble with the keeper.
bool of_connecting(const Error& error)
{
    switch (error.sys.value()) {
    case ECONNREFUSED:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ENETUNREACH:
    case EHOSTUNREACH: return true;
    default: return false;
    }
}

/// The errno with which connecting ended; EINPROGRESS when the time was over first.
Task<int> connected(int socket, SteadyTime until)
{
    using namespace asio::experimental::awaitable_operators;
    const auto executor = co_await asio::this_coro::executor;
    constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
    asio::steady_timer timer(executor, until);
    asio::posix::stream_descriptor borrowed(executor, socket);
    ScopeExit release([&] { borrowed.release(); });
    const auto writable = asio::posix::descriptor_base::wait_write;
    const auto first = co_await (borrowed.async_wait(writable, as_value) || timer.async_wait(as_value));
    if (first.index() == 1) co_return EINPROGRESS;
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) co_return errno;
    co_return error;
}

/// Where nobody listens the kernel may give a connection the port it is going to as its own, and TCP lets
/// two that call each other meet, even if both are one. It would answer with what it is sent.
bool is_its_own_peer(int socket)
{
    sockaddr_storage ours{}, theirs{};
    socklen_t our_size = sizeof ours, their_size = sizeof theirs;
    return ::getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &our_size) == 0 &&
           ::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &their_size) == 0 &&
           our_size == their_size && std::memcmp(&ours, &theirs, our_size) == 0;
}

} // namespace

Task<Result<UniqueFd>> KeptBackend::dial(SandboxHandle sandbox, std::uint16_t port)
{
    if (port == 0) co_return fail(Code::Invalid, "0 is not a port");
    const auto until = system_clock().steady() + kDialPatience;
    int error = ECONNREFUSED;
    for (const int version : {4, 6}) {
        auto socket = co_await dial_by_keeper(sandbox, port, version);
        if (!socket && !of_connecting(socket.error())) co_return std::unexpected(std::move(socket).error());
        int ended = socket ? co_await connected(socket->get(), until) : socket.error().sys.value();
        if (ended == 0 && is_its_own_peer(socket->get())) ended = ECONNREFUSED;
        if (ended == 0) co_return *std::move(socket);
        // A sandbox without IPv6 says so; the word about IPv4 is the one to tell.
        if (version == 4 || ended == ECONNREFUSED || ended == EINPROGRESS) error = ended;
    }
    if (error == EINPROGRESS)
        co_return fail(Code::Unavailable, "port {} of sandbox {} does not answer", port, sandbox.sandbox);
    co_return fail_with(error, "nothing listens on port {} of sandbox {}", port, sandbox.sandbox);
}

} // namespace berth::keeping
