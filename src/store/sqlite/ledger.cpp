#include "store/sqlite/ledger.hpp"

#include <algorithm>

namespace berth::store {

namespace {

constexpr std::size_t kMaxPage = 10'000;

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
    constexpr const char* of_all =
        "SELECT sequence, time, sandbox, type, data FROM ledger WHERE sequence>?1 AND "
        "(?2='' OR type=?2) ORDER BY sequence LIMIT ?3";
    constexpr const char* of_one =
        "SELECT sequence, time, sandbox, type, data FROM ledger WHERE sequence>?1 AND "
        "(?2='' OR type=?2) AND sandbox=?4 ORDER BY sequence LIMIT ?3";
    BERTH_TRY(auto row, db.prepare(query.sandbox.empty() ? of_all : of_one));
    row.bind(query.after).bind(query.type).bind(std::uint64_t{std::min(query.limit, kMaxPage)});
    if (!query.sandbox.empty()) row.bind(query.sandbox);
    std::vector<LedgerEvent> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        BERTH_TRY(auto data, json::parse(row.text(4)));
        if (!data.is_object()) return fail(Code::Internal, "store: event {} is no object", row.number(0));
        out.push_back({.sequence = static_cast<std::uint64_t>(row.number(0)),
                       .time = WallTime(std::chrono::nanoseconds(row.number(1))),
                       .sandbox = row.text(2),
                       .type = row.text(3),
                       .data = std::move(data.as_object())});
    }
}

} // namespace berth::store
