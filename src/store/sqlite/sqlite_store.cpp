// Records, snapshots and leases. Nothing here knows what they mean: core/lifecycle does.
#include "store/sqlite/sqlite_store.hpp"

#include <fcntl.h>

#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "core/spec_json.hpp"
#include "store/sqlite/ledger.hpp"
#include "store/sqlite/schema.hpp"

namespace berth::store {

namespace {

constexpr const char* kColumns =
    "version, key, backend, native, state, generation, spec, spec_hash, snapshot, "
    "superseded_by, created, last_used";
constexpr std::size_t kMaxPage = 10'000;

Result<State> read_state(const std::string& text)
{
    for (const auto state : {State::Creating, State::Running, State::Paused, State::Stopped, State::Lost,
                             State::Failed, State::Attached, State::Detached, State::Destroyed})
        if (text == to_string(state)) return state;
    return fail(Code::Internal, "store: no state '{}'", printable(text, 40));
}

Result<SandboxRecord> read_record(const Statement& row)
{
    SandboxRecord out;
    out.version = static_cast<std::uint64_t>(row.number(0));
    out.key = row.text(1);
    out.backend = row.text(2);
    out.native = row.text(3);
    BERTH_TRY(out.state, read_state(row.text(4)));
    out.generation = static_cast<std::uint64_t>(row.number(5));
    BERTH_TRY(const auto document, json::parse(row.text(6)));
    BERTH_TRY(out.spec, read_spec(json::Reader(document)));
    out.spec_hash = row.text(7);
    out.latest_snapshot = row.text(8);
    out.superseded_by = row.text(9);
    out.created = WallTime(std::chrono::nanoseconds(row.number(10)));
    out.last_used = WallTime(std::chrono::nanoseconds(row.number(11)));
    return out;
}

std::int64_t ticks(WallTime time) { return time.time_since_epoch().count(); }

/// Everything but id and version, in the order of both statements below.
void bind_record(Statement& statement, const SandboxRecord& record)
{
    statement.bind(record.key)
        .bind(record.spec.name)
        .bind(record.backend)
        .bind(record.native)
        .bind(to_string(record.state))
        .bind(std::int64_t{record.live() ? 1 : 0})
        .bind(record.generation)
        .bind(json::dump(to_json(record.spec)))
        .bind(record.spec_hash)
        .bind(record.latest_snapshot)
        .bind(record.superseded_by)
        .bind(ticks(record.created))
        .bind(ticks(record.last_used));
}

Status named_conflict(Status status, const SandboxRecord& record)
{
    if (status || status.error().code != Code::Conflict) return status;
    return fail(Code::Conflict, "sandbox {}: its id or its key '{}' is taken", record.id(),
                printable(record.key, 80));
}

SnapshotRecord read_snapshot(const Statement& row)
{
    return {.id = row.text(0),
            .sandbox = row.text(1),
            .kind = row.text(2),
            .parent = row.text(3),
            .note = row.text(4),
            .sha256 = row.text(5),
            .bytes = static_cast<std::uint64_t>(row.number(6)),
            .created = WallTime(std::chrono::nanoseconds(row.number(7)))};
}

} // namespace

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& path, const Clock& clock)
{
    {
        // Made by us, so that SQLite gives its journal the same mode; one that is there is left alone.
        const UniqueFd made(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!made) return fail_errno("opening the store {}", path);
    }
    BERTH_TRY(auto writes, Connection::open(path));
    BERTH_CHECK(migrate(writes));
    BERTH_TRY(auto reads, Connection::open(path));
    return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(writes), std::move(reads), clock));
}

Result<SandboxRecord> SqliteStore::insert(SandboxRecord record, std::vector<LedgerEvent> events)
{
    record.version = 1;
    BERTH_CHECK(writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(auto row,
                  db.prepare("INSERT INTO sandbox (id, version, key, name, backend, native, state, live, "
                             "generation, spec, spec_hash, snapshot, superseded_by, created, last_used) "
                             "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
        row.bind(record.id()).bind(record.version);
        bind_record(row, record);
        BERTH_CHECK(named_conflict(row.run(), record));
        return append_events(db, events, clock_->now());
    }));
    return record;
}

Result<SandboxRecord> SqliteStore::update(SandboxRecord record, std::vector<LedgerEvent> events)
{
    const std::uint64_t before = record.version++;
    BERTH_CHECK(writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(auto row,
                  db.prepare("UPDATE sandbox SET version=?, key=?, name=?, backend=?, native=?, state=?, "
                             "live=?, generation=?, spec=?, spec_hash=?, snapshot=?, superseded_by=?, "
                             "created=?, last_used=? WHERE id=? AND version=?"));
        row.bind(record.version);
        bind_record(row, record);
        row.bind(record.id()).bind(before);
        BERTH_CHECK(named_conflict(row.run(), record));
        if (db.changes() != 1)
            return fail(Code::Conflict, "sandbox {} was changed by somebody else", record.id());
        return append_events(db, events, clock_->now());
    }));
    return record;
}

Result<std::optional<SandboxRecord>> SqliteStore::find(const std::string& id)
{
    const std::scoped_lock alone(reading_);
    static const std::string sql = fmt::format("SELECT {} FROM sandbox WHERE id=?", kColumns);
    BERTH_TRY(auto row, reads_.prepare(sql.c_str()));
    BERTH_TRY(const bool found, row.bind(id).step());
    if (!found) return std::optional<SandboxRecord>{};
    return read_record(row);
}

Result<std::optional<SandboxRecord>> SqliteStore::find_key(const std::string& key)
{
    const std::scoped_lock alone(reading_);
    static const std::string sql =
        fmt::format("SELECT {} FROM sandbox WHERE key=? AND live=1 AND key<>''", kColumns);
    BERTH_TRY(auto row, reads_.prepare(sql.c_str()));
    BERTH_TRY(const bool found, row.bind(key).step());
    if (!found) return std::optional<SandboxRecord>{};
    return read_record(row);
}

Result<std::vector<SandboxRecord>> SqliteStore::list(const RecordQuery& query)
{
    const std::scoped_lock alone(reading_);
    // The prefix as a range, so that the primary key serves it; no id has a character above 'z'.
    static const std::string all = fmt::format("SELECT {} FROM sandbox WHERE id>? AND id>=? AND id<? AND "
                                               "(?='' OR name=?) AND (?='' OR backend=?) ORDER BY id LIMIT ?",
                                               kColumns);
    static const std::string living =
        fmt::format("SELECT {} FROM sandbox WHERE live=1 AND id>? AND id>=? AND id<? AND "
                    "(?='' OR name=?) AND (?='' OR backend=?) ORDER BY id LIMIT ?",
                    kColumns);
    BERTH_TRY(auto row, reads_.prepare((query.with_dead ? all : living).c_str()));
    row.bind(query.after).bind(query.id_prefix).bind(query.id_prefix + "~");
    row.bind(query.name).bind(query.name).bind(query.backend).bind(query.backend);
    row.bind(std::uint64_t{std::min(query.limit, kMaxPage)});
    std::vector<SandboxRecord> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        BERTH_TRY(auto record, read_record(row));
        out.push_back(std::move(record));
    }
}

Result<std::uint64_t> SqliteStore::append(std::vector<LedgerEvent> events)
{
    if (events.empty()) return fail(Code::Invalid, "no event to append");
    std::uint64_t last = 0;
    BERTH_CHECK(writer_.write([&](Connection& db) -> Status {
        BERTH_CHECK(append_events(db, events, clock_->now()));
        last = static_cast<std::uint64_t>(db.last_id());
        return {};
    }));
    return last;
}

Result<std::vector<LedgerEvent>> SqliteStore::ledger(const LedgerQuery& query)
{
    const std::scoped_lock alone(reading_);
    return read_events(reads_, query);
}

Status SqliteStore::add_snapshot(SnapshotRecord snapshot, std::vector<LedgerEvent> events)
{
    return writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(auto row,
                  db.prepare("INSERT INTO snapshot (id, sandbox, kind, parent, note, sha256, bytes, "
                             "created) VALUES (?,?,?,?,?,?,?,?)"));
        row.bind(snapshot.id).bind(snapshot.sandbox).bind(snapshot.kind).bind(snapshot.parent);
        row.bind(snapshot.note).bind(snapshot.sha256).bind(snapshot.bytes).bind(ticks(snapshot.created));
        if (auto done = row.run(); !done) {
            if (done.error().code != Code::Conflict) return done;
            return fail(Code::Conflict, "snapshot {} exists", snapshot.id);
        }
        return append_events(db, events, clock_->now());
    });
}

Result<std::optional<SnapshotRecord>> SqliteStore::find_snapshot(const std::string& id)
{
    const std::scoped_lock alone(reading_);
    BERTH_TRY(auto row, reads_.prepare("SELECT id, sandbox, kind, parent, note, sha256, bytes, created "
                                       "FROM snapshot WHERE id=?"));
    BERTH_TRY(const bool found, row.bind(id).step());
    if (!found) return std::optional<SnapshotRecord>{};
    return read_snapshot(row);
}

Result<std::vector<SnapshotRecord>> SqliteStore::snapshots(const std::string& sandbox)
{
    const std::scoped_lock alone(reading_);
    BERTH_TRY(auto row,
              reads_.prepare("SELECT id, sandbox, kind, parent, note, sha256, bytes, created "
                             "FROM snapshot WHERE ?='' OR sandbox=? ORDER BY created DESC, id DESC"));
    row.bind(sandbox).bind(sandbox);
    std::vector<SnapshotRecord> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        out.push_back(read_snapshot(row));
    }
}

Status SqliteStore::remove_snapshot(const std::string& id, std::vector<LedgerEvent> events)
{
    return writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(auto row, db.prepare("DELETE FROM snapshot WHERE id=?"));
        BERTH_CHECK(row.bind(id).run());
        return db.changes() == 0 ? Status{} : append_events(db, events, clock_->now());
    });
}

Result<bool> SqliteStore::lease(const std::string& name, const std::string& holder,
                                std::chrono::milliseconds duration)
{
    bool taken = false;
    BERTH_CHECK(writer_.write([&](Connection& db) -> Status {
        const auto now = clock_->now();
        BERTH_TRY(auto row,
                  db.prepare("INSERT INTO lease (name, holder, until) VALUES (?1,?2,?3) ON CONFLICT (name) "
                             "DO UPDATE SET holder=?2, until=?3 WHERE holder=?2 OR until<=?4"));
        BERTH_CHECK(row.bind(name).bind(holder).bind(ticks(now + duration)).bind(ticks(now)).run());
        taken = db.changes() == 1;
        return {};
    }));
    return taken;
}

Status SqliteStore::release(const std::string& name, const std::string& holder)
{
    return writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(auto row, db.prepare("DELETE FROM lease WHERE name=? AND holder=?"));
        return row.bind(name).bind(holder).run();
    });
}

} // namespace berth::store
