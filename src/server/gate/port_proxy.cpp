#include "server/gate/port_proxy.hpp"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/strings.hpp"
#include "server/http/socket_channel.hpp"
#include "server/http/tls_channel.hpp"

namespace berth::gate {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kIdle = 630s;
constexpr auto kHandshake = 10s;
constexpr int kTries = 4;
constexpr auto kBetween = 100ms;
constexpr std::size_t kPiece = std::size_t{64} << 10;

SteadyTime later() { return system_clock().steady() + kIdle; }

/// Of one connection alone: not passed on.
bool hop_by_hop(std::string_view name)
{
    for (const std::string_view one :
         {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
          "transfer-encoding", "upgrade", "proxy-connection", "expect"})
        if (http::same_word(name, one)) return true;
    return false;
}

bool has_body(const http::RequestHead& head) { return head.chunked || head.length.value_or(0) > 0; }
/// A body and another protocol on one connection: the body wins.
bool upgrades(const http::RequestHead& head) { return head.upgrade && !has_body(head); }

std::string head_for(const http::RequestHead& head, const PortRequest& request)
{
    std::string out = fmt::format("{} {} HTTP/1.1\r\n", head.method, request.target);
    const auto line = [&](std::string_view name, std::string_view value) {
        out += fmt::format("{}: {}\r\n", name, value);
    };
    for (const auto& [name, value] : head.headers) {
        if (hop_by_hop(name) || request.for_us(name, value) || http::same_word(name, "content-length"))
            continue;
        // By its usual name: programs are found that know no other.
        const bool host = http::same_word(name, "host");
        line(host ? "Host" : name, host && !request.host.empty() ? request.host : value);
    }
    line("X-Forwarded-For", head.peer);
    if (upgrades(head)) {
        line("Connection", "Upgrade");
        line("Upgrade", head.value("upgrade"));
    } else {
        line("Connection", "close");
    }
    if (head.chunked) line("Transfer-Encoding", "chunked");
    if (!head.chunked && head.length) line("Content-Length", std::to_string(*head.length));
    out += "\r\n";
    return out;
}

/// Its connection is none that the listener's sweep knows.
Task<void> hold_deadlines(http::Channel& inside)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
        timer.expires_after(1s);
        auto [stopped] = co_await timer.async_wait(as_value);
        if (stopped) co_return;
        inside.check(system_clock().steady());
    }
}

/// Silence is no fault of a connection of another protocol; one who does not read is.
Task<void> copy(http::Channel& from, http::Channel& to)
{
    std::string buffer(kPiece, '\0');
    for (;;) {
        const auto n = co_await from.read_some(buffer, SteadyTime::max());
        if (!n || *n == 0) break;
        if (!co_await to.write(std::string_view(buffer).substr(0, *n), later())) {
            from.close(); // nobody wants the rest
            break;
        }
    }
    to.end_writing();
}

Task<void> tunnel(http::Channel& client, http::Channel& inside, std::string early)
{
    if (!early.empty() && !co_await inside.write(early, later())) co_return;
    co_await (copy(client, inside) && copy(inside, client));
}

/// The request's body, as it comes; never returns by itself, since what matters is the answer.
Task<void> pass_body(http::Exchange& exchange, http::Channel& inside)
{
    asio::steady_timer never(co_await asio::this_coro::executor, SteadyTime::max());
    const bool chunked = exchange.head().chunked;
    exchange.let_trickle(); // the program inside decides
    for (;;) {
        const auto piece = co_await exchange.read();
        if (!piece) {
            inside.reset();
            break;
        }
        const std::string framed =
            chunked ? fmt::format("{:x}\r\n{}\r\n", piece->size(), *piece) : *piece; // "0\r\n\r\n" at its end
        if (!framed.empty() && !co_await inside.write(framed, later())) break;
        if (piece->empty()) break;
    }
    co_await never.async_wait(as_value);
}

/// Reads until a head is complete; the rest of the bytes stays in `buffer`.
Task<Status> read_one_head(http::Channel& inside, http::MessageParser& parser, std::string& buffer)
{
    while (!parser.head_done()) {
        if (!buffer.empty()) {
            BERTH_CO_TRY(const auto used, parser.feed(buffer));
            buffer.erase(0, used);
            if (parser.head_done()) break;
        }
        const auto old = buffer.size();
        if (old > http::kHeadLimit) co_return fail(Code::Invalid, "an answer's head without end");
        buffer.resize(old + kPiece);
        const auto n = co_await inside.read_some(std::span(buffer).subspan(old), later());
        buffer.resize(old + n.value_or(0));
        if (!n) co_return std::unexpected(n.error());
        if (*n == 0) co_return fail(Code::Unavailable, "the program hung up without an answer");
    }
    co_return Status{};
}

/// The head of the answer, past those that only say that one will come.
Task<Status> read_head(http::Channel& inside, std::optional<http::MessageParser>& parser, bool no_body,
                       std::string& buffer)
{
    constexpr int most = 16;
    for (int i = 0; i < most; ++i) {
        parser.emplace(http::MessageParser::Kind::Response, no_body);
        BERTH_CO_CHECK(co_await read_one_head(inside, *parser, buffer));
        if (parser->status() >= 200 || parser->status() == 101) co_return Status{};
    }
    co_return fail(Code::Invalid, "the program says again and again that it will answer");
}

/// The answer's body to the client.
Task<void> pass_answer(http::Exchange& exchange, http::Channel& inside, http::MessageParser& parser,
                       std::string& buffer)
{
    while (true) {
        if (parser.has_body() && !co_await exchange.write(parser.take_body())) co_return;
        if (parser.done()) break;
        if (!buffer.empty()) {
            const auto used = parser.feed(buffer);
            if (!used) {
                exchange.drop();
                co_return;
            }
            buffer.erase(0, *used);
            // What was not taken is the beginning of a chunk's head: more is needed.
            if (*used > 0 || parser.done() || parser.has_body()) continue;
        }
        const auto old = buffer.size();
        buffer.resize(old + kPiece);
        const auto n = co_await inside.read_some(std::span(buffer).subspan(old), later());
        buffer.resize(old + n.value_or(0));
        if (n && *n > 0 && old <= http::kHeadLimit) continue;
        // Without a length, the end of the connection is the end of the body.
        if (n && old == 0 && parser.end()) break;
        exchange.drop();
        co_return;
    }
    (void)co_await exchange.finish();
}

Task<void> answer(http::Exchange& exchange, http::Channel& inside, const PortRequest& request)
{
    const auto& head = exchange.head();
    std::optional<http::MessageParser> parsed;
    std::string buffer;
    auto got = co_await read_head(inside, parsed, head.method == "HEAD", buffer);
    if (got && parsed->status() == 101 && !upgrades(head))
        got = fail(Code::Invalid, "the program changed to a protocol that nobody asked for");
    if (!got) {
        (void)co_await exchange.send(request.refusal(got.error().message));
        co_return;
    }
    http::MessageParser& parser = *parsed;
    http::Pairs headers = request.added;
    std::optional<std::uint64_t> length;
    for (const auto& [name, value] : parser.headers()) {
        if (http::same_word(name, "content-length")) {
            if (const auto size = parse_int(value, 0, INT64_MAX, "length"))
                length = static_cast<std::uint64_t>(*size);
            continue;
        }
        if (!hop_by_hop(name) && !http::same_word(name, "date")) headers.emplace_back(name, value);
    }
    const int status = parser.status();
    if (status == 101) {
        headers.emplace_back("Connection", "Upgrade");
        if (const auto* const protocol = http::find_header(parser.headers(), "upgrade"))
            headers.emplace_back("Upgrade", *protocol);
        if (!co_await exchange.begin(101, std::move(headers))) co_return;
        std::string early;
        auto& client = exchange.take_over(early);
        if (!buffer.empty() && !co_await client.write(buffer, later())) co_return;
        co_await tunnel(client, inside, std::move(early));
        co_return;
    }
    if (status == 204 || status == 304) {
        (void)co_await exchange.send({.status = status, .headers = std::move(headers)});
        co_return;
    }
    if (!co_await exchange.begin(status, std::move(headers), length)) co_return;
    co_await pass_answer(exchange, inside, parser, buffer);
}

Task<void> exchange_with(http::Exchange& exchange, http::Channel& inside, const PortRequest& request)
{
    if (!co_await inside.write(head_for(exchange.head(), request), later())) {
        (void)co_await exchange.send(request.refusal("the program hung up"));
        co_return;
    }
    if (!has_body(exchange.head())) {
        co_await answer(exchange, inside, request);
        co_return;
    }
    // Before anything else is written: from here on only the answer is.
    if (!co_await exchange.invite_body()) co_return;
    co_await (answer(exchange, inside, request) || pass_body(exchange, inside));
}

} // namespace

Task<Result<std::unique_ptr<http::Channel>>> dial_port(Backend& backend, SandboxHandle sandbox,
                                                       std::uint16_t port, PortSpeaks speaks)
{
    const auto executor = co_await asio::this_coro::executor;
    Result<UniqueFd> socket = fail(Code::Unavailable, "not dialled");
    for (int i = 0; i < kTries && !socket; ++i) {
        if (i > 0) {
            asio::steady_timer timer(executor, kBetween);
            co_await timer.async_wait(as_value);
        }
        socket = co_await backend.dial(sandbox, port);
        if (!socket && socket.error().code == Code::Unsupported) break;
    }
    if (!socket) co_return std::unexpected(std::move(socket).error());
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&name), &size);
    http::StreamSocket stream(executor);
    boost::system::error_code error;
    stream.assign(asio::generic::stream_protocol(name.ss_family, 0), socket->get(), error);
    if (error) co_return fail(Code::Unavailable, "port {}: {}", port, error.message());
    (void)socket->release();
    if (speaks == PortSpeaks::Plain) co_return http::make_channel(std::move(stream));
    auto inside = http::make_tls_client_channel(std::move(stream));
    const auto until = system_clock().steady() + kHandshake;
    auto first = co_await (http::tls_handshake(*inside, until) || hold_deadlines(*inside));
    if (auto* const shaken = std::get_if<0>(&first); shaken != nullptr && !*shaken)
        co_return std::unexpected(
            std::move(shaken->error()).while_doing(fmt::format("speaking TLS to port {}", port)));
    co_return inside;
}

Task<void> pass_request(http::Exchange& exchange, http::Channel& inside, const PortRequest& request)
{
    co_await (exchange_with(exchange, inside, request) || hold_deadlines(inside));
}

Task<void> pass_stream(http::Exchange& exchange, http::Channel& inside)
{
    std::string early;
    auto& client = exchange.take_over(early);
    co_await (tunnel(client, inside, std::move(early)) || hold_deadlines(inside));
}

} // namespace berth::gate
