// The ledger as a tenant may see it: what happened to his own sandboxes.
#include <map>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/strings.hpp"
#include "lifecycle/documents.hpp"
#include "server/gate/tenant.hpp"
#include "server/own/api.hpp"

namespace berth::own {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto kLookAgain = 250ms;
constexpr auto kKeepalive = 15s;

/// A moment; false when nobody waits any more.
Task<bool> rest(http::Exchange& exchange)
{
    asio::steady_timer moment(co_await asio::this_coro::executor, kLookAgain);
    const auto first = co_await (moment.async_wait(asio::as_tuple(asio::use_awaitable)) || exchange.gone());
    co_return first.index() == 0;
}

Result<LedgerQuery> query_of(const http::RequestHead& head)
{
    LedgerQuery query;
    const auto* const after = head.parameter("after");
    const std::string_view last = after != nullptr ? std::string_view(*after) : head.value("last-event-id");
    if (!last.empty()) {
        BERTH_TRY(const auto number, parse_int(last, 0, INT64_MAX, "after"));
        query.after = static_cast<std::uint64_t>(number);
    }
    if (const auto* const sandbox = head.parameter("sandbox")) query.sandbox = *sandbox;
    if (const auto* const type = head.parameter("type")) query.type = *type;
    return query;
}

} // namespace

/// The next page of them; `query` goes on behind it. `ours` remembers whose each sandbox is.
Task<Result<std::vector<LedgerEvent>>> Api::own_events(const std::string& tenant, LedgerQuery& query,
                                                       std::map<std::string, bool>& ours, bool& more)
{
    BERTH_CO_TRY(auto events,
                 co_await ground_.pool.call([&] { return ground_.berth.store().ledger(query); }));
    more = events.size() >= query.limit;
    std::vector<LedgerEvent> out;
    for (auto& event : events) {
        query.after = event.sequence;
        auto known = ours.find(event.sandbox);
        if (known == ours.end()) {
            constexpr std::size_t most = 10'000;
            if (ours.size() >= most) ours.clear();
            const auto record = co_await lifecycle().find(event.sandbox);
            known = ours.emplace(event.sandbox, record && gate::owned(record->spec, tenant)).first;
        }
        if (known->second) out.push_back(std::move(event));
    }
    co_return out;
}

Task<Answer> Api::events(Call& call)
{
    BERTH_CO_TRY(auto query, query_of(call.exchange.head()));
    const auto* const follow = call.exchange.head().parameter("follow");
    if (follow != nullptr && *follow == "true") co_return co_await follow_events(call, std::move(query));
    std::map<std::string, bool> ours;
    bool more = false;
    BERTH_CO_TRY(const auto events, co_await own_events(call.tenant, query, ours, more));
    json::Array out;
    for (const auto& event : events) out.emplace_back(documents::ledger(event));
    json::Object document;
    document["events"] = std::move(out);
    document["after"] = query.after; // where to go on
    document["more"] = more;
    co_return http::json_response(200, document);
}

Task<Answer> Api::follow_events(Call& call, LedgerQuery query)
{
    auto& exchange = call.exchange;
    BERTH_CO_CHECK(
        co_await exchange.begin(200, {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}}));
    std::map<std::string, bool> ours;
    auto said = system_clock().steady();
    while (!leaving_) {
        bool more = false;
        const auto events = co_await own_events(call.tenant, query, ours, more);
        std::string out;
        if (!events)
            out = fmt::format("event: error\ndata: {}\n\n", json::dump(json::error_document(events.error())));
        else
            for (const auto& event : *events)
                out +=
                    fmt::format("id: {}\ndata: {}\n\n", event.sequence, json::dump(documents::ledger(event)));
        const auto now = system_clock().steady();
        if (out.empty() && now >= said + kKeepalive) out = ": still here\n\n";
        if (!out.empty()) {
            said = now;
            if (!co_await exchange.write(out)) co_return http::Response{};
        }
        if (!events) break;
        if (!more && !co_await rest(exchange)) co_return http::Response{};
    }
    (void)co_await exchange.finish();
    co_return http::Response{};
}

} // namespace berth::own
