#include "server/own/api.hpp"

#include <boost/asio/this_coro.hpp>

#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "server/gate/tenant.hpp"

namespace berth::own {

namespace {

http::Response failure(const Error& error, int status)
{
    return http::json_response(status, json::error_document(error));
}

} // namespace

Task<Result<SandboxRecord>> Api::record_of(const Call& call)
{
    const std::string& id = call.parameters.front();
    const auto missing = [&] { return fail(Code::NotFound, "no sandbox '{}'", printable(id, 60)); };
    // Whole ids alone: a name or the beginning of an id would tell about those of others.
    if (!is_id(id, "sbx_")) co_return missing();
    auto found = co_await lifecycle().find(id);
    if (!found || !gate::owned(found->spec, call.tenant)) co_return missing();
    co_return *std::move(found);
}

Task<Result<SnapshotRecord>> Api::snapshot_of(const Call& call)
{
    const std::string& id = call.parameters.front();
    const auto missing = [&] { return fail(Code::NotFound, "no snapshot '{}'", printable(id, 60)); };
    if (!is_id(id, "snap_")) co_return missing();
    auto found = co_await lifecycle().find_snapshot(id);
    if (!found || found->internal || !gate::owned(found->spec, call.tenant)) co_return missing();
    co_return *std::move(found);
}

Task<Result<json::Value>> Api::body_of(Call& call)
{
    BERTH_CO_TRY(const auto text, co_await call.exchange.body(kBodyLimit));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) co_return json::Value(json::Object{});
    BERTH_CO_TRY(auto document, json::parse(text));
    if (!document.is_object()) co_return fail(Code::Invalid, "the body must be a JSON object");
    co_return document;
}

Task<void> Api::answer(http::Exchange& exchange)
{
    const auto& head = exchange.head();
    std::string_view secret = head.value("x-api-key");
    if (const auto bearer = head.value("authorization"); secret.empty() && bearer.starts_with("Bearer "))
        secret = bearer.substr(7);
    const auto tenant = gate::tenant_of(ground_, secret);
    if (!tenant && head.path != "/openapi.json") {
        const Error error{.code = Code::Denied,
                          .message = "no valid key: send it as Authorization: Bearer KEY"};
        (void)co_await exchange.send(failure(error, 401).with("WWW-Authenticate", "Bearer"));
        co_return;
    }
    if (tenant && !ground_.rate.take(*tenant, system_clock().steady())) {
        const Error error{.code = Code::Exhausted, .message = "too many requests"};
        (void)co_await exchange.send(failure(error, 429));
        co_return;
    }
    auto match = router_.find(head);
    if (match.route == nullptr) {
        const Error error{.code = Code::NotFound,
                          .message =
                              match.path_known ? "this method is not allowed here" : "there is nothing here"};
        (void)co_await exchange.send(failure(error, match.path_known ? 405 : 404));
        co_return;
    }
    Call call{.exchange = exchange,
              .tenant = tenant.value_or(""),
              .parameters = std::move(match.parameters),
              .by_bearer = ground_.authentication && head.value("x-api-key").empty()};
    auto answer = co_await (this->*match.route->handler.work)(call);
    if (exchange.begun()) co_return;
    if (answer) {
        (void)co_await exchange.send(*std::move(answer));
        co_return;
    }
    const int status = exchange.too_large() ? 413 : http::status_of(answer.error());
    (void)co_await exchange.send(failure(answer.error(), status));
}

void Api::leave()
{
    leaving_ = true;
    for (auto& one : attended_) one.emit(boost::asio::cancellation_type::terminal);
}

} // namespace berth::own
