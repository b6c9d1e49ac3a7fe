#include "cli/forward.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <list>

#include <CLI/CLI.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/json.hpp"
#include "base/strings.hpp"
#include "cli/relay.hpp"
#include "cli/shared_end.hpp"

namespace berth::cli {

namespace asio = boost::asio;

namespace {

using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

/// "127.0.0.1:8080", "[::1]:8080", ":8080" or "8080".
Result<tcp::endpoint> parse_listen(const std::string& text)
{
    if (text.empty()) return tcp::endpoint(asio::ip::address_v4::loopback(), 0);
    const auto colon = text.rfind(':');
    std::string address = colon == std::string::npos ? "" : text.substr(0, colon);
    if (address.size() > 1 && address.front() == '[' && address.back() == ']')
        address = address.substr(1, address.size() - 2);
    const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
    BERTH_TRY(const auto port, parse_int(number, 0, 65535, "port to listen on"));
    boost::system::error_code bad;
    const auto parsed = asio::ip::make_address(address.empty() ? "127.0.0.1" : address, bad);
    if (bad)
        return fail(Code::Invalid, "bad address '{}': write it like 127.0.0.1:8080", printable(text, 60));
    return tcp::endpoint(parsed, static_cast<std::uint16_t>(port));
}

std::string show(const tcp::endpoint& endpoint)
{
    const std::string address = endpoint.address().to_string();
    return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                      : fmt::format("{}:{}", address, endpoint.port());
}

/// One connection. Whatever is wrong with it, the others go on.
Task<void> serve(Dial dial, tcp::socket client)
{
    auto inside = co_await dial();
    if (!inside) {
        say(inside.error().line());
        co_return;
    }
    auto peer = stream_socket(client.get_executor(), *std::move(inside));
    if (!peer) {
        say(peer.error().line());
        co_return;
    }
    StreamSocket ours(std::move(client));
    co_await relay(ours, *peer);
}

Task<Status> accept_all(const Dial& dial, const ForwardWish& wish, Connections& connections)
{
    const auto loop = co_await asio::this_coro::executor;
    BERTH_CO_TRY(const auto where, parse_listen(wish.listen));
    boost::system::error_code error;
    tcp::acceptor acceptor(loop);
    acceptor.open(where.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(where, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error)
        co_return std::unexpected(
            Error{.code = code_of_errno(error.value()),
                  .message = fmt::format("listening on {}: {}", show(where), error.message())});
    const std::string address = show(acceptor.local_endpoint());
    if (wish.common.json)
        std::cout << json::dump(
                         json::Object{{"listening", address}, {"sandbox", wish.sandbox}, {"port", wish.port}})
                  << std::endl;
    else
        std::cout << address << std::endl;
    for (;;) {
        auto [failed, client] = co_await acceptor.async_accept(as_value);
        // Out of descriptors, or a client that has gone already: the next one may be luckier.
        if (failed == asio::error::operation_aborted) co_return Status{};
        if (failed) {
            say(fmt::format("accepting a connection: {}", failed.message()));
            asio::steady_timer breath(loop, std::chrono::milliseconds(100));
            co_await breath.async_wait(as_value);
            continue;
        }
        const auto own = connections.emplace(connections.end());
        asio::co_spawn(loop, serve(dial, std::move(client)),
                       asio::bind_cancellation_slot(own->slot(), [&connections, own, loop](auto) {
                           asio::post(loop, [&connections, own] { connections.erase(own); });
                       }));
    }
}

Task<Status> connect_stdio(const Dial& dial)
{
    const auto loop = co_await asio::this_coro::executor;
    BERTH_CO_TRY(auto in, SharedEnd::open(loop, STDIN_FILENO, SharedEnd::Use::Read));
    BERTH_CO_TRY(auto out, SharedEnd::open(loop, STDOUT_FILENO, SharedEnd::Use::Write));
    BERTH_CO_TRY(auto inside, co_await dial());
    BERTH_CO_TRY(auto peer, stream_socket(loop, std::move(inside)));
    co_await relay(in, out, peer);
    co_return Status{};
}

} // namespace

void add_forward_options(CLI::App& app, ForwardWish& wish)
{
    app.add_option("sandbox", wish.sandbox, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("port", wish.port_text, "The port inside")->type_name("PORT")->required();
    app.add_option("--listen", wish.listen, "Where to listen (default 127.0.0.1 and a free port, printed)")
        ->type_name("ADDR:PORT");
    app.add_flag("--stdio", wish.stdio, "One connection, with stdin and stdout as its ends");
    add_common(app, wish.common);
}

Status check(ForwardWish& wish)
{
    BERTH_TRY(const auto port, parse_int(wish.port_text, 1, 65535, "port"));
    wish.port = static_cast<std::uint16_t>(port);
    if (wish.stdio && !wish.listen.empty())
        return fail(Code::Invalid, "--stdio and --listen exclude each other: it is one connection, or many");
    BERTH_TRY([[maybe_unused]] const auto endpoint, parse_listen(wish.listen));
    return {};
}

Task<Status> forward(Dial dial, ForwardWish wish, Connections& connections)
{
    const auto loop = co_await asio::this_coro::executor;
    asio::signal_set signals(loop, SIGINT, SIGTERM, SIGHUP);
    auto work = wish.stdio ? connect_stdio(dial) : accept_all(dial, wish, connections);
    auto first = co_await (std::move(work) || signals.async_wait(as_value));
    for (auto& one : connections) one.emit(asio::cancellation_type::terminal);
    if (auto* const ended = std::get_if<Status>(&first)) co_return std::move(*ended);
    co_return Status{};
}

} // namespace berth::cli
