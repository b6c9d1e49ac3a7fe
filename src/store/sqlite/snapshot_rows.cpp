#include "store/sqlite/snapshot_rows.hpp"

#include "core/spec_json.hpp"
#include "store/sqlite/record_rows.hpp"

namespace berth::store {

namespace {

constexpr const char* kColumns = "id, sandbox, kind, parent, note, sha256, bytes, created, backend, file, "
                                 "live_copy, internal, spec";

Result<SnapshotRecord> read_snapshot(const Statement& row)
{
    SnapshotRecord out{.id = row.text(0),
                       .sandbox = row.text(1),
                       .kind = row.text(2),
                       .backend = row.text(8),
                       .parent = row.text(3),
                       .note = row.text(4),
                       .file = row.text(9),
                       .sha256 = row.text(5),
                       .bytes = static_cast<std::uint64_t>(row.number(6)),
                       .live_copy = row.number(10) != 0,
                       .internal = row.number(11) != 0,
                       .created = wall_time(row.number(7)),
                       .spec = {}};
    if (const auto text = row.text(12); !text.empty()) {
        BERTH_TRY(out.spec, read_kept(text, "snapshot " + out.id));
    }
    return out;
}

} // namespace

Status insert_snapshot(Connection& db, const SnapshotRecord& snapshot)
{
    // Whoever recovers takes the newest, and whoever collects keeps it: a clock that stepped back must not
    // put it behind those before it.
    BERTH_TRY(auto row,
              db.prepare("INSERT INTO snapshot (id, sandbox, kind, parent, note, sha256, bytes, created, "
                         "backend, file, live_copy, internal, spec) VALUES (?1,?2,?3,?4,?5,?6,?7,"
                         "max(?8, ifnull((SELECT max(created) + 1 FROM snapshot WHERE sandbox=?2), ?8)),"
                         "?9,?10,?11,?12,?13)"));
    row.bind(snapshot.id).bind(snapshot.sandbox).bind(snapshot.kind).bind(snapshot.parent);
    row.bind(snapshot.note).bind(snapshot.sha256).bind(snapshot.bytes).bind(ticks(snapshot.created));
    row.bind(snapshot.backend).bind(snapshot.file).bind(std::int64_t{snapshot.live_copy ? 1 : 0});
    row.bind(std::int64_t{snapshot.internal ? 1 : 0}).bind(json::dump(to_json(snapshot.spec)));
    auto done = row.run();
    if (!done && done.error().code == Code::Conflict)
        return fail(Code::Conflict, "snapshot {} exists", snapshot.id);
    return done;
}

Status set_snapshot_bytes(Connection& db, const std::string& id, std::uint64_t bytes)
{
    BERTH_TRY(auto row, db.prepare("UPDATE snapshot SET bytes=? WHERE id=?"));
    return row.bind(bytes).bind(id).run();
}

Result<std::optional<SnapshotRecord>> find_snapshot_row(Connection& db, const std::string& id)
{
    static const std::string sql = fmt::format("SELECT {} FROM snapshot WHERE id=?", kColumns);
    BERTH_TRY(auto row, db.prepare(sql.c_str()));
    BERTH_TRY(const bool found, row.bind(id).step());
    if (!found) return std::optional<SnapshotRecord>{};
    return read_snapshot(row);
}

Result<std::vector<SnapshotRecord>> list_snapshots(Connection& db, const std::string& sandbox)
{
    static const std::string of_all =
        fmt::format("SELECT {} FROM snapshot ORDER BY created DESC, id DESC", kColumns);
    static const std::string of_one =
        fmt::format("SELECT {} FROM snapshot WHERE sandbox=? ORDER BY created DESC, id DESC", kColumns);
    BERTH_TRY(auto row, db.prepare((sandbox.empty() ? of_all : of_one).c_str()));
    if (!sandbox.empty()) row.bind(sandbox);
    std::vector<SnapshotRecord> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        BERTH_TRY(auto snapshot, read_snapshot(row));
        out.push_back(std::move(snapshot));
    }
}

Result<bool> delete_snapshot(Connection& db, const std::string& id)
{
    BERTH_TRY(auto row, db.prepare("DELETE FROM snapshot WHERE id=?"));
    BERTH_CHECK(row.bind(id).run());
    return db.changes() != 0;
}

} // namespace berth::store
