#include "server/e2b/port_proxy.hpp"

#include <array>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/socket.h>

#include "base/strings.hpp"
#include "server/e2b/rpc.hpp"
#include "server/http/socket_channel.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kIdle = 630s;
constexpr int kTries = 4; // a program that has just been started may not listen yet
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

/// What tells us where a request goes, and what lets it: nothing for the program inside.
bool for_us(std::string_view name)
{
    for (const std::string_view one :
         {"e2b-sandbox-id", "e2b-sandbox-port", "e2b-traffic-access-token", "x-access-token", "x-api-key"})
        if (http::same_word(name, one)) return true;
    return false;
}

std::string head_for(const http::RequestHead& head, const Entry& entry, std::uint16_t port)
{
    std::string out = fmt::format("{} {} HTTP/1.1\r\n", head.method, head.target);
    const auto line = [&](std::string_view name, std::string_view value) {
        out += fmt::format("{}: {}\r\n", name, value);
    };
    for (const auto& [name, value] : head.headers) {
        if (hop_by_hop(name) || for_us(name) || http::same_word(name, "content-length")) continue;
        if (http::same_word(name, "host") && !entry.mask_host.empty()) {
            std::string masked = entry.mask_host;
            if (const auto at = masked.find("${PORT}"); at != std::string::npos)
                masked.replace(at, 7, std::to_string(port));
            line(name, masked);
            continue;
        }
        line(name, value);
    }
    line("X-Forwarded-For", head.peer);
    if (head.upgrade) {
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

Task<void> copy(http::Channel& from, http::Channel& to)
{
    std::string buffer(kPiece, '\0');
    for (;;) {
        const auto n = co_await from.read_some(buffer, later());
        if (!n || *n == 0) break;
        if (!co_await to.write(std::string_view(buffer).substr(0, *n), later())) break;
    }
    to.end_writing();
}

Task<void> tunnel(http::Channel& client, http::Channel& inside, std::string early)
{
    if (!early.empty() && !co_await inside.write(early, later())) co_return;
    co_await (copy(client, inside) && copy(inside, client));
}

/// The request's body, as it comes.
Task<void> pass_body(http::Exchange& exchange, http::Channel& inside)
{
    const auto& head = exchange.head();
    for (;;) {
        const auto piece = co_await exchange.read();
        if (!piece) {
            inside.reset();
            co_return;
        }
        if (piece->empty()) break;
        const std::string framed =
            head.chunked ? fmt::format("{:x}\r\n{}\r\n", piece->size(), *piece) : *piece;
        if (!co_await inside.write(framed, later())) co_return;
    }
    if (head.chunked) (void)co_await inside.write("0\r\n\r\n", later());
}

Task<void> send_closed(http::Exchange& exchange, const Entry& entry, std::uint16_t port, std::string message)
{
    json::Object out;
    out["sandboxId"] = entry.id;
    out["message"] = std::move(message);
    out["port"] = port;
    out["code"] = 502;
    (void)co_await exchange.send(http::json_response(502, out));
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
        if (buffer.empty()) {
            buffer.resize(kPiece);
            const auto n = co_await inside.read_some(buffer, later());
            buffer.resize(n.value_or(0));
            if (!n || *n == 0) {
                // Without a length, the end of the connection is the end of the body.
                if (n && parser.end()) break;
                exchange.drop();
                co_return;
            }
        }
        const auto used = parser.feed(buffer);
        if (!used) {
            exchange.drop();
            co_return;
        }
        buffer.erase(0, *used);
        if (*used == 0 && !parser.done() && !parser.has_body()) {
            const auto old = buffer.size();
            buffer.resize(old + kPiece);
            const auto n = co_await inside.read_some(std::span(buffer).subspan(old), later());
            buffer.resize(old + n.value_or(0));
            if (!n || *n == 0) {
                exchange.drop();
                co_return;
            }
        }
    }
    (void)co_await exchange.finish();
}

Task<void> speak(EnvdCall& call, std::uint16_t port, http::Channel& inside)
{
    auto& exchange = call.exchange;
    const auto& head = exchange.head();
    if (!co_await inside.write(head_for(head, *call.entry, port), later())) {
        co_await send_closed(exchange, *call.entry, port, "The sandbox is running but port is not open");
        co_return;
    }
    std::optional<http::MessageParser> answer;
    const bool no_body = head.method == "HEAD";
    std::string buffer;
    // An answer may come before the body has been sent.
    const bool has_body = head.chunked || head.length.value_or(0) > 0;
    Status got;
    if (has_body) {
        auto both = co_await (read_head(inside, answer, no_body, buffer) && pass_body(exchange, inside));
        got = std::move(both);
    } else {
        got = co_await read_head(inside, answer, no_body, buffer);
    }
    if (got && answer->status() == 101 && !head.upgrade)
        got = fail(Code::Invalid, "the program changed to a protocol that nobody asked for");
    if (!got) {
        co_await send_closed(exchange, *call.entry, port, got.error().message);
        co_return;
    }
    http::MessageParser& parser = *answer;
    http::Pairs headers;
    std::optional<std::uint64_t> length;
    for (const auto& [name, value] : parser.headers()) {
        if (http::same_word(name, "content-length")) {
            if (const auto size = parse_int(value, 0, INT64_MAX, "length"))
                length = static_cast<std::uint64_t>(*size);
            continue;
        }
        if (!hop_by_hop(name) && !http::same_word(name, "date")) headers.emplace_back(name, value);
    }
    if (parser.status() == 101 && head.upgrade) {
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
    const int status = parser.status();
    if (status == 204 || status == 304) {
        (void)co_await exchange.send({.status = status, .headers = std::move(headers)});
        co_return;
    }
    if (!co_await exchange.begin(status, std::move(headers), length)) co_return;
    co_await pass_answer(exchange, inside, parser, buffer);
}

} // namespace

Task<void> proxy_port(EnvdCall& call, std::uint16_t port)
{
    const auto executor = co_await asio::this_coro::executor;
    Result<UniqueFd> socket = fail(Code::Unavailable, "not dialled");
    for (int i = 0; i < kTries && !socket; ++i) {
        if (i > 0) {
            asio::steady_timer timer(executor, kBetween);
            co_await timer.async_wait(as_value);
        }
        socket = co_await call.backend.dial(call.handle, port);
    }
    if (!socket) {
        co_await send_closed(call.exchange, *call.entry, port, "The sandbox is running but port is not open");
        co_return;
    }
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&name), &size);
    http::StreamSocket stream(executor);
    boost::system::error_code error;
    stream.assign(asio::generic::stream_protocol(name.ss_family, 0), socket->release(), error);
    if (error) {
        co_await send_closed(call.exchange, *call.entry, port, error.message());
        co_return;
    }
    const auto inside = http::make_channel(std::move(stream));
    const auto turn = call.entry->turns;
    const auto first = co_await (speak(call, port, *inside) || rpc::interrupted(call.exchange, call.entry));
    if (first.index() == 1 || call.entry->turns != turn) call.exchange.drop();
}

} // namespace berth::e2b
