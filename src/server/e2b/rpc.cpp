#include "server/e2b/rpc.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/strings.hpp"

namespace berth::e2b::rpc {

namespace {

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kStream = "application/connect+json";

Task<void> refuse_type(http::Exchange& exchange) { (void)co_await exchange.send(http::empty_response(415)); }

} // namespace

Task<std::optional<std::string>> unary_message(http::Exchange& exchange)
{
    if (exchange.head().media_type() != "application/json") {
        co_await refuse_type(exchange);
        co_return std::nullopt;
    }
    auto body = co_await exchange.body(kMessageLimit);
    if (body) co_return *std::move(body);
    co_await send_failure(exchange, connect::failure_of(body.error()));
    co_return std::nullopt;
}

Task<bool> check_stream(http::Exchange& exchange)
{
    if (exchange.head().media_type() == kStream) co_return true;
    co_await refuse_type(exchange);
    co_return false;
}

Task<std::optional<std::string>> stream_message(http::Exchange& exchange)
{
    if (!co_await check_stream(exchange)) co_return std::nullopt;
    connect::EnvelopeReader reader(kMessageLimit);
    auto body = co_await exchange.body(kMessageLimit + 64);
    Result<std::optional<connect::Envelope>> first = std::optional<connect::Envelope>{};
    if (body) {
        reader.feed(*body);
        first = reader.next();
    }
    std::optional<connect::Failure> failure;
    if (!body)
        failure = connect::failure_of(body.error());
    else if (!first)
        failure = connect::failure_of(first.error());
    else if (!*first || (*first)->last() || !reader.clean())
        failure = connect::Failure{.status = connect::Status::InvalidArgument,
                                   .message = "expected exactly one message"};
    if (!failure) co_return std::move((*first)->payload);
    begin_stream(exchange);
    co_await end_stream(exchange, *failure);
    co_return std::nullopt;
}

Task<void> send_message(http::Exchange& exchange, std::string message)
{
    (void)co_await exchange.send(http::json_response(200, std::move(message)));
}

void begin_stream(http::Exchange& exchange)
{
    exchange.begin_with_first(200, {{"Content-Type", std::string(kStream)}});
}

Task<void> end_stream(http::Exchange& exchange, std::optional<connect::Failure> failure, std::string before)
{
    const std::string payload = failure ? connect::end_of_stream(*failure) : connect::end_of_stream();
    before += connect::encode(payload, connect::kEndOfStream);
    (void)co_await exchange.finish(before);
}

std::chrono::seconds keepalive(const http::RequestHead& head)
{
    const auto parsed = parse_int(head.value("keepalive-ping-interval"), 1, 3600, "interval");
    return std::chrono::seconds(parsed.value_or(90));
}

Result<std::optional<std::chrono::milliseconds>> timeout(const http::RequestHead& head)
{
    const auto* const text = head.header("connect-timeout-ms");
    if (text == nullptr || text->empty()) return std::optional<std::chrono::milliseconds>{};
    BERTH_TRY(const auto number, parse_int(*text, 0, 9'999'999'999, "connect-timeout-ms"));
    return std::chrono::milliseconds(number);
}

Task<void> interrupted(http::Exchange& exchange, EntryPtr entry)
{
    co_await (entry->turn->async_wait(as_value) || exchange.gone());
}

} // namespace berth::e2b::rpc
