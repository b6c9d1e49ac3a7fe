#include "store/sqlite/ended_rows.hpp"

#include "store/sqlite/record_rows.hpp"

namespace berth::store {

Result<std::vector<std::string>> list_ended(Connection& db, WallTime before, std::size_t limit)
{
    BERTH_TRY(auto row,
              db.prepare("SELECT id FROM sandbox WHERE state IN ('destroyed', 'failed', 'detached') "
                         "AND changed<? AND NOT EXISTS (SELECT 1 FROM snapshot WHERE "
                         "snapshot.sandbox=sandbox.id) ORDER BY changed LIMIT ?"));
    row.bind(ticks(before)).bind(std::uint64_t{limit});
    std::vector<std::string> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        out.push_back(row.text(0));
    }
}

Result<std::size_t> delete_ended(Connection& db, WallTime before, std::size_t limit)
{
    BERTH_TRY(const auto ids, list_ended(db, before, limit));
    // The first line is how old the store is, and a receipt outlives its sandbox.
    constexpr const char* kEvents = "DELETE FROM ledger WHERE sandbox=? AND type<>'berth.policy_proved' AND "
                                    "sequence>(SELECT min(sequence) FROM ledger)";
    constexpr const char* kExecs = "DELETE FROM exec WHERE sandbox=?";
    constexpr const char* kRecord = "DELETE FROM sandbox WHERE id=?";
    for (const auto& id : ids)
        for (const char* part : {kEvents, kExecs, kRecord}) {
            BERTH_TRY(auto row, db.prepare(part));
            BERTH_CHECK(row.bind(id).run());
        }
    return ids.size();
}

} // namespace berth::store
