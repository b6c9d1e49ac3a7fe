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
#include "cli/exec_options.hpp"
#include "cli/relay.hpp"
#include "cli/session.hpp"
#include "cli/shared_end.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace asio = boost::asio;

namespace {

using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

struct Options {
    Common common;
    std::string ref;
    std::string port;
    std::string listen;
    bool stdio = false;
};

/// What ends each connection that lives.
using Connections = std::list<asio::cancellation_signal>;

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
Task<void> serve(Backend& backend, SandboxHandle sandbox, std::uint16_t port, tcp::socket client)
{
    auto inside = co_await backend.dial(sandbox, port);
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

Task<Status> forward(Backend& backend, SandboxHandle sandbox, std::uint16_t port, const Options& o,
                     Connections& connections)
{
    const auto loop = co_await asio::this_coro::executor;
    BERTH_CO_TRY(const auto where, parse_listen(o.listen));
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
    if (o.common.json)
        std::cout << json::dump(
                         json::Object{{"listening", address}, {"sandbox", sandbox.sandbox}, {"port", port}})
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
        asio::co_spawn(loop, serve(backend, sandbox, port, std::move(client)),
                       asio::bind_cancellation_slot(own->slot(), [&connections, own, loop](auto) {
                           asio::post(loop, [&connections, own] { connections.erase(own); });
                       }));
    }
}

Task<Status> connect_stdio(Backend& backend, SandboxHandle sandbox, std::uint16_t port)
{
    const auto loop = co_await asio::this_coro::executor;
    BERTH_CO_TRY(auto in, SharedEnd::open(loop, STDIN_FILENO, SharedEnd::Use::Read));
    BERTH_CO_TRY(auto out, SharedEnd::open(loop, STDOUT_FILENO, SharedEnd::Use::Write));
    BERTH_CO_TRY(auto inside, co_await backend.dial(sandbox, port));
    BERTH_CO_TRY(auto peer, stream_socket(loop, std::move(inside)));
    co_await relay(in, out, peer);
    co_return Status{};
}

Task<Status> run_port(Lifecycle& lifecycle, const Options& o, std::uint16_t port, Connections& connections)
{
    const auto loop = co_await asio::this_coro::executor;
    BERTH_CO_TRY(const auto acquired, co_await lifecycle.use(o.ref));
    say_unless_attached(acquired);
    BERTH_CO_TRY(auto* const backend, co_await lifecycle.backend(acquired.record.backend));
    const auto handle = Lifecycle::handle(acquired.record);
    asio::signal_set signals(loop, SIGINT, SIGTERM, SIGHUP);
    auto work =
        o.stdio ? connect_stdio(*backend, handle, port) : forward(*backend, handle, port, o, connections);
    auto first = co_await (std::move(work) || signals.async_wait(as_value));
    for (auto& one : connections) one.emit(asio::cancellation_type::terminal);
    if (auto* const ended = std::get_if<Status>(&first)) co_return std::move(*ended);
    co_return Status{};
}

Result<int> run(const Options& o)
{
    BERTH_TRY(const auto port, parse_int(o.port, 1, 65535, "port"));
    if (o.stdio && !o.listen.empty())
        return fail(Code::Invalid, "--stdio and --listen exclude each other: it is one connection, or many");
    BERTH_TRY([[maybe_unused]] const auto endpoint, parse_listen(o.listen));
    BERTH_TRY(const auto berth, open_berth(o.common));
    Connections connections; // outlives the loop, which runs until each of them has ended
    BERTH_CHECK(berth->run(run_port(berth->lifecycle(), o, static_cast<std::uint16_t>(port), connections)));
    return 0;
}

} // namespace

int port_verb(int argc, char** argv)
{
    CLI::App app(
        "Reach a port that a program in a sandbox listens on, also of a sandbox without any network:\n"
        "connections to an address of this machine are passed on until Ctrl-C.\n\n"
        "Example:\n"
        "  berth port mybox 8000 --listen 127.0.0.1:8000\n",
        "berth port");
    Options options;
    app.add_option("sandbox", options.ref, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("port", options.port, "The port inside")->type_name("PORT")->required();
    app.add_option("--listen", options.listen, "Where to listen (default 127.0.0.1 and a free port, printed)")
        ->type_name("ADDR:PORT");
    app.add_flag("--stdio", options.stdio, "One connection, with stdin and stdout as its ends");
    add_common(app, options.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, options.common, argc, argv)) return *done;
    const auto code = run(options);
    return code ? *code : report(code.error(), options.common);
}

} // namespace berth::cli
