#include "server/codex/exec_server.hpp"

#include <unistd.h>

#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/encoding.hpp"
#include "server/codex/executor.hpp"
#include "server/codex/room.hpp"
#include "server/codex/sandbox_place.hpp"
#include "server/http/beat.hpp"
#include "sys/open_files.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kThreads = 8;
constexpr std::string_view kBearer = "Bearer ";

bool knows_token(const http::RequestHead& head, const std::string& token)
{
    if (token.empty()) return true;
    const auto value = head.value("authorization");
    if (value.size() > kBearer.size() && http::same_word(value.substr(0, kBearer.size()), kBearer))
        return equal_secret(value.substr(kBearer.size()), token);
    const auto* const key = head.parameter("key");
    return key != nullptr && equal_secret(*key, token);
}

Task<void> answer(http::Exchange& exchange, Room& room, const PlaceMaker& places, const std::string& token)
{
    const auto& head = exchange.head();
    if (head.header("origin") != nullptr) {
        (void)co_await exchange.send(http::text_response(403, "requests from web pages are not answered\n"));
    } else if (head.path == "/readyz") {
        (void)co_await exchange.send({.status = 200});
    } else if (head.path != "/" && head.path != "/codex") {
        (void)co_await exchange.send(http::text_response(404, "there is nothing here\n"));
    } else if (!knows_token(head, token)) {
        (void)co_await exchange.send(
            http::text_response(401, "a token is needed: Authorization: Bearer TOKEN\n"));
    } else {
        co_await room.welcome(exchange, {}, places);
    }
}

/// Where sessions run, by what the operator chose.
Task<Result<PlaceMaker>> places_of(const ExecServerOptions& options, BlockingPool& pool)
{
    auto& lifecycle = options.berth->lifecycle();
    if (options.sandbox.empty() && !options.session) {
        BERTH_CO_TRY(auto state, local::StateDir::open(options.berth->data()));
        co_return always(std::make_shared<Executor>(std::move(state), options.ceiling, pool));
    }
    BERTH_CO_TRY(auto traces, Traces::open(options.berth->data()));
    co_await traces->sweep(lifecycle, pool);
    const SandboxGround ground{lifecycle, pool, co_await asio::this_coro::executor, std::move(traces)};
    if (options.session) co_return make_sandboxes(ground, *options.session);
    BERTH_CO_TRY(const auto found, co_await lifecycle.find(options.sandbox));
    co_return enter_sandbox(ground, found.id());
}

std::shared_ptr<Web> web_of(const ExecServerOptions& options)
{
    return options.ceiling.http.empty() ? nullptr : std::make_shared<Web>(options.ceiling.http);
}

} // namespace

Task<Status> serve_sockets(ExecServerOptions options, std::function<void(std::uint16_t port)> ready)
{
    sys::raise_open_files();
    const auto executor = co_await asio::this_coro::executor;
    BlockingPool pool(kThreads);
    BERTH_CO_TRY(const auto places, co_await places_of(options, pool));
    Room room(executor, web_of(options));
    const std::string token = options.token;
    const http::Handler handler = [&](http::Exchange& exchange) {
        return answer(exchange, room, places, token);
    };
    BERTH_CO_TRY(auto host, co_await http::Host::open(options.host, handler));
    asio::signal_set signals(executor, SIGINT, SIGTERM);
    http::Beat sweeping(executor, 250ms);
    ready(host->port());
    sweeping.start([&room] { return room.sweep(); });
    co_await (host->run() || signals.async_wait(as_value));
    room.leave();
    co_await host->stop(1s);
    co_await sweeping.end();
    co_await room.end();
    // What was on its way ends before what it works with does.
    asio::steady_timer timer(executor, 500ms);
    (void)co_await timer.async_wait(as_value);
    co_return Status{};
}

Task<Status> serve_lines(ExecServerOptions options)
{
    sys::raise_open_files();
    const auto executor = co_await asio::this_coro::executor;
    BlockingPool pool(kThreads);
    BERTH_CO_TRY(const auto places, co_await places_of(options, pool));
    Room room(executor, web_of(options));
    asio::signal_set signals(executor, SIGINT, SIGTERM);
    Status done;
    const auto talk = [](Room& with, const PlaceMaker& where, Status& outcome) -> Task<void> {
        outcome = co_await with.converse(STDIN_FILENO, STDOUT_FILENO, where);
    };
    co_await (talk(room, places, done) || signals.async_wait(as_value));
    room.leave();
    co_await room.end();
    asio::steady_timer timer(executor, 20ms);
    (void)co_await timer.async_wait(as_value);
    co_return done;
}

} // namespace berth::codex
