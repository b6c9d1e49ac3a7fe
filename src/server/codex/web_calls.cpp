#include "server/codex/web_calls.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "base/encoding.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "protocol/jsonrpc/message.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kWhole = std::size_t{32} << 20; ///< of an answer in one message

std::unexpected<RpcError> web_failed(const Error& error)
{
    if (error.code == Code::Invalid) return refuse(jsonrpc::kInvalidParams, error.message);
    if (error.code == Code::Denied) return refuse(jsonrpc::kInvalidRequest, error.message);
    return refuse(jsonrpc::kInternalError, error.message);
}

json::Object head_of(const http_client::HttpAnswer& answer)
{
    json::Array headers;
    for (const auto& [name, value] : answer.fields) {
        json::Object one;
        one["name"] = name;
        one["value"] = printable(value, value.size()); // bytes that are no text have no place in JSON
        headers.emplace_back(std::move(one));
    }
    json::Object out;
    out["status"] = answer.status;
    out["headers"] = std::move(headers);
    out["bodyBase64"] = "";
    return out;
}

} // namespace

WebCalls::WebCalls(std::shared_ptr<Web> web, boost::asio::any_io_executor loop, Notify notify, Room room)
    : web_(std::move(web)), loop_(std::move(loop)), notify_(std::move(notify)), room_(std::move(room))
{
}

Task<Answer> WebCalls::request(json::Value params)
{
    const auto self = shared_from_this();
    auto asked = read_http(params);
    if (!asked) co_return bad_params(asked.error());
    const std::string id = asked->request_id;
    const bool streamed = asked->stream;
    if (live_.contains(id))
        co_return refuse(jsonrpc::kInvalidRequest,
                         fmt::format("request {} is under way already", printable(id, 80)));
    if (closed_ || !web_->enter())
        co_return refuse(jsonrpc::kInternalError,
                         fmt::format("at most {} requests at once: try again", Web::kCalls));
    auto seat = std::make_shared<Seat>(*web_); // shared with whoever tells the pieces
    const std::string url = asked->url.substr(0, asked->url.find_first_of("?#"));
    const std::string method = asked->method;
    const auto call = std::make_shared<WebCall>(web_->allowed(), *std::move(asked));
    live_.emplace(id, call);
    const auto begun = co_await web_->pool().call([&] { return call->begin(); });
    log::info("http/request", {{"method", method},
                               {"url", printable(url, 200)},
                               {"status", begun ? std::to_string(call->head().status) : "none"},
                               {"why", begun ? "" : printable(begun.error().message, 300)}});
    if (!begun) {
        live_.erase(id);
        co_return web_failed(begun.error());
    }
    if (!streamed) {
        auto answer = co_await whole(call);
        live_.erase(id);
        co_return answer;
    }
    // The answer goes first: it is sent before the loop comes to this.
    boost::asio::post(loop_, [self, id, call, seat] {
        boost::asio::co_spawn(self->loop_, self->stream(id, call, seat), boost::asio::detached);
    });
    co_return json::Value(head_of(call->head()));
}

Task<Answer> WebCalls::whole(std::shared_ptr<WebCall> call)
{
    std::string body;
    const auto read = [&]() -> Status {
        for (;;) {
            BERTH_TRY(const auto piece, call->next());
            if (piece.empty()) return {};
            if (body.size() + piece.size() > kWhole)
                return fail(Code::Exhausted, "the answer is larger than {} bytes: ask with streamResponse",
                            kWhole);
            body += piece;
        }
    };
    const auto done = co_await web_->pool().call(read);
    if (!done) co_return web_failed(done.error());
    auto out = head_of(call->head());
    out["bodyBase64"] = base64_encode(body);
    co_return json::Value(std::move(out));
}

Task<void> WebCalls::stream(std::string id, std::shared_ptr<WebCall> call, std::shared_ptr<Seat> seat)
{
    const auto self = shared_from_this();
    std::uint64_t seq = 0;
    for (bool over = false; !over && !closed_;) {
        co_await room_(); // what is not taken is not read
        if (closed_) break;
        const auto piece = co_await web_->pool().call([&] { return call->next(); });
        over = !piece || piece->empty();
        if (over) live_.erase(id); // its number is free once it is told
        if (closed_) break;
        json::Object out;
        out["requestId"] = id;
        out["seq"] = ++seq;
        out["deltaBase64"] = piece ? base64_encode(*piece) : std::string{};
        out["done"] = over;
        out["error"] = piece ? json::Value() : json::Value(piece.error().message);
        notify_("http/request/bodyDelta", std::move(out));
    }
    live_.erase(id);
    seat.reset();
}

void WebCalls::close() noexcept
{
    closed_ = true;
    for (const auto& [id, call] : live_) call->hang_up();
}

} // namespace berth::codex
