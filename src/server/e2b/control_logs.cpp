// What has happened to a sandbox, and to a tenant, as the control plane tells it.

#include <algorithm>
#include <deque>

#include <boost/asio/this_coro.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "server/e2b/control.hpp"

namespace berth::e2b {

namespace {

constexpr std::int64_t kMostLines = 1000;  // in one answer
constexpr std::size_t kPage = 1000;        // of the ledger at a time
constexpr std::size_t kFarthest = 200'000; // events that are looked through for one answer
constexpr std::size_t kLongestSearch = 256;
constexpr std::int64_t kLatest = INT64_MAX / 2'000'000; // in milliseconds

json::Object fields_of(const LedgerEvent& event)
{
    json::Object out;
    for (const auto& [name, value] : event.data)
        out[name] = value.is_string() ? std::string(value.get_string()) : json::dump(value);
    return out;
}

json::Object log_entry(const LedgerEvent& event)
{
    json::Object out;
    out["timestamp"] = rfc3339(event.time);
    out["level"] = "info";
    out["message"] = event.type;
    out["fields"] = fields_of(event);
    return out;
}

/// The older form is a document in a text: clients parse it, and miss `level` and `logger` badly.
json::Object log_line(const LedgerEvent& event)
{
    json::Object line = fields_of(event);
    line["level"] = "info";
    line["logger"] = "berth";
    line["message"] = event.type;
    json::Object out;
    out["timestamp"] = rfc3339(event.time);
    out["line"] = json::dump(line);
    return out;
}

std::int64_t milliseconds(WallTime time)
{
    return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// Which events an answer has.
struct LogQuery {
    std::int64_t from = 0; ///< in milliseconds
    std::int64_t until = kLatest;
    std::size_t limit = kMostLines;
    bool newest = false; ///< the last ones, the newest first
    std::string search;
};

bool holds(const LedgerEvent& event, const std::string& text)
{
    return text.empty() || event.type.find(text) != std::string::npos ||
           json::dump(event.data).find(text) != std::string::npos;
}

Result<std::vector<LedgerEvent>> events_of(Store& store, const std::string& sandbox, const LogQuery& wish)
{
    std::deque<LedgerEvent> out;
    LedgerQuery query{.limit = kPage, .sandbox = sandbox, .type = {}};
    for (std::size_t seen = 0; seen < kFarthest;) {
        BERTH_TRY(auto page, store.ledger(query));
        seen += page.size();
        for (auto& event : page) {
            query.after = event.sequence;
            const auto at = milliseconds(event.time);
            if (at < wish.from || at > wish.until || !holds(event, wish.search)) continue;
            out.push_back(std::move(event));
            if (out.size() <= wish.limit) continue;
            if (wish.newest)
                out.pop_front();
            else
                out.pop_back();
        }
        const bool full = !wish.newest && out.size() == wish.limit;
        if (page.size() < kPage || full) break;
    }
    if (wish.newest) std::ranges::reverse(out);
    return std::vector<LedgerEvent>(std::make_move_iterator(out.begin()), std::make_move_iterator(out.end()));
}

} // namespace

Task<Control::Answer> Control::logs_v1(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(const auto entry, entry_of(call));
    LogQuery wish;
    BERTH_CO_TRY(wish.from, number_of(head, "start", 0, kLatest, 0));
    BERTH_CO_TRY(const auto limit, number_of(head, "limit", 0, kMostLines, kMostLines));
    wish.limit = static_cast<std::size_t>(limit);
    auto& ground = sandboxes_.ground();
    BERTH_CO_TRY(const auto events, co_await ground.pool.call([&] {
        return events_of(ground.berth.store(), entry->record.id(), wish);
    }));
    json::Array lines, entries;
    for (const auto& event : events) {
        lines.emplace_back(log_line(event));
        entries.emplace_back(log_entry(event));
    }
    json::Object out;
    out["logs"] = std::move(lines);
    out["logEntries"] = std::move(entries);
    co_return http::json_response(200, out);
}

Task<Control::Answer> Control::logs_v2(Call& call)
{
    const auto& head = call.exchange.head();
    const auto text = [&](std::string_view name) {
        const auto* const value = head.parameter(name);
        return value == nullptr ? std::string{} : *value;
    };
    BERTH_CO_TRY(const auto entry, entry_of(call));
    const auto direction = text("direction"), level = text("level");
    if (!direction.empty() && direction != "forward" && direction != "backward")
        co_return fail(Code::Invalid, "direction is 'forward' or 'backward'");
    if (!level.empty() && level != "debug" && level != "info" && level != "warn" && level != "error")
        co_return fail(Code::Invalid, "level is 'debug', 'info', 'warn' or 'error'");
    LogQuery wish{.newest = direction == "backward", .search = text("search")};
    if (wish.search.size() > kLongestSearch)
        co_return fail(Code::Invalid, "search: {} characters at most", kLongestSearch);
    BERTH_CO_TRY(const auto limit, number_of(head, "limit", 0, kMostLines, kMostLines));
    // Nothing here is worse than information.
    wish.limit = level == "warn" || level == "error" ? 0 : static_cast<std::size_t>(limit);
    BERTH_CO_TRY(const auto cursor, number_of(head, "cursor", 0, kLatest, wish.newest ? kLatest : 0));
    (wish.newest ? wish.until : wish.from) = cursor;
    auto& ground = sandboxes_.ground();
    BERTH_CO_TRY(const auto events, co_await ground.pool.call([&] {
        return events_of(ground.berth.store(), entry->record.id(), wish);
    }));
    json::Array entries;
    for (const auto& event : events) entries.emplace_back(log_entry(event));
    json::Object out;
    out["logs"] = std::move(entries);
    co_return http::json_response(200, out);
}

Task<Control::Answer> Control::teams(Call& call)
{
    json::Object team;
    team["teamID"] = call.tenant;
    team["name"] = call.tenant;
    team["apiKey"] = "";
    team["isDefault"] = true;
    json::Array out;
    out.emplace_back(std::move(team));
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

/// As it is now; what it was is not kept.
Task<Control::Answer> Control::team_metrics(Call& call)
{
    const bool greatest = call.exchange.head().segments.size() == 4;
    // Somebody else's is not there.
    if (call.parameters.front() != call.tenant)
        co_return fail(Code::NotFound, "team '{}' not found", printable(call.parameters.front(), 60));
    const auto all = sandboxes_.all();
    const auto running = std::ranges::count_if(
        all, [&](const auto& entry) { return entry->tenant == call.tenant && !entry->paused; });
    const auto now = sandboxes_.now();
    const auto minute = std::chrono::seconds(60);
    const auto started = std::ranges::count_if(all, [&](const auto& entry) {
        return entry->tenant == call.tenant && entry->started + minute > now;
    });
    const double rate = static_cast<double>(started) / 60;
    json::Object one;
    one["timestamp"] = rfc3339(now);
    one["timestampUnix"] = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    if (!greatest) {
        one["concurrentSandboxes"] = running;
        one["sandboxStartRate"] = rate;
        json::Array out;
        out.emplace_back(std::move(one));
        co_return http::json_response(200, json::dump(json::Value(std::move(out))));
    }
    const auto* const metric = call.exchange.head().parameter("metric");
    if (metric == nullptr || (*metric != "concurrent_sandboxes" && *metric != "sandbox_start_rate"))
        co_return fail(Code::Invalid, "metric is 'concurrent_sandboxes' or 'sandbox_start_rate'");
    if (*metric == "concurrent_sandboxes")
        one["value"] = running;
    else
        one["value"] = rate;
    co_return http::json_response(200, one);
}

} // namespace berth::e2b
