#include "store/sqlite/ledger.hpp"

#include <algorithm>

namespace berth::store {

namespace {

constexpr std::size_t kMaxPage = 10'000;

/// An index has them in their order, of all and of one: it is read from the end that is asked for.
const char* select_events(const LedgerQuery& query)
{
    const auto written = [](const char* whose, const char* order) {
        return fmt::format("SELECT sequence, time, sandbox, type, data FROM ledger WHERE sequence>?1 AND "
                           "(?2='' OR type=?2){} ORDER BY sequence{} LIMIT ?3",
                           whose, order);
    };
    static const std::string of_all = written("", "");
    static const std::string of_one = written(" AND sandbox=?4", "");
    static const std::string last_of_all = written("", " DESC");
    static const std::string last_of_one = written(" AND sandbox=?4", " DESC");
    if (query.newest) return (query.sandbox.empty() ? last_of_all : last_of_one).c_str();
    return (query.sandbox.empty() ? of_all : of_one).c_str();
}

} // namespace

Status append_events(Connection& db, const std::vector<LedgerEvent>& events, WallTime now)
{
    for (const auto& event : events) {
        if (event.type.empty()) return fail(Code::Invalid, "an event without a type");
        const WallTime time = event.time == WallTime{} ? now : event.time;
        BERTH_TRY(auto row, db.prepare("INSERT INTO ledger (time, sandbox, type, data) VALUES (?,?,?,?)"));
        row.bind(std::int64_t{time.time_since_epoch().count()}).bind(event.sandbox).bind(event.type);
        BERTH_CHECK(row.bind(json::dump(event.data)).run());
    }
    return {};
}

Result<std::vector<LedgerEvent>> read_events(Connection& db, const LedgerQuery& query)
{
    BERTH_TRY(auto row, db.prepare(select_events(query)));
    row.bind(query.after).bind(query.type).bind(std::uint64_t{std::min(query.limit, kMaxPage)});
    if (!query.sandbox.empty()) row.bind(query.sandbox);
    std::vector<LedgerEvent> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) break;
        BERTH_TRY(auto data, json::parse(row.text(4)));
        if (!data.is_object()) return fail(Code::Internal, "store: event {} is no object", row.number(0));
        out.push_back({.sequence = static_cast<std::uint64_t>(row.number(0)),
                       .time = WallTime(std::chrono::nanoseconds(row.number(1))),
                       .sandbox = row.text(2),
                       .type = row.text(3),
                       .data = std::move(data.as_object())});
    }
    if (query.newest) std::ranges::reverse(out);
    return out;
}

} // namespace berth::store
