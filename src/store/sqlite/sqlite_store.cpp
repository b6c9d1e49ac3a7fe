// What belongs together is written together. Nothing here knows what it means: core/lifecycle does.
#include "store/sqlite/sqlite_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "store/sqlite/ended_rows.hpp"
#include "store/sqlite/exec_rows.hpp"
#include "store/sqlite/ledger.hpp"
#include "store/sqlite/record_rows.hpp"
#include "store/sqlite/schema.hpp"
#include "store/sqlite/snapshot_rows.hpp"

namespace berth::store {

namespace {

Result<std::string> read_owner(Connection& db)
{
    BERTH_TRY(auto row, db.prepare("SELECT value FROM setting WHERE name='owner'"));
    BERTH_TRY(const bool found, row.step());
    if (!found) return fail(Code::Internal, "store: it has lost its owner's name");
    return row.text(0);
}

/// A new store in the place of one that was lost: the same owner, so that a backend's instances are still
/// ours, and every record of which there is a copy. What is told of it is also what tells when it was made.
Status fill(Connection& db, const Copies& copies, WallTime now)
{
    const auto owner = copies.owner();
    if (owner) {
        BERTH_TRY(auto row, db.prepare("UPDATE setting SET value=? WHERE name='owner'"));
        BERTH_CHECK(row.bind(*owner).run());
    }
    BERTH_TRY(const auto kept, copies.read());
    if (!owner && kept.sandboxes.empty() && kept.snapshots.empty()) return {};
    for (auto record : kept.sandboxes) {
        record.version = 1;
        record.due = record.deadline();
        auto done = insert_record(db, record);
        if (!done &&
            done.error().code == Code::Conflict) { // two copies of which one is stale: neither is lost
            record.key.clear();
            done = insert_record(db, record);
        }
        BERTH_CHECK(std::move(done));
    }
    for (const auto& snapshot : kept.snapshots) BERTH_CHECK(insert_snapshot(db, snapshot));
    json::Array unreadable;
    for (const auto& name : kept.unreadable) unreadable.emplace_back(name);
    LedgerEvent told{.type = "berth.store_rebuilt"};
    told.data["sandboxes"] = kept.sandboxes.size();
    told.data["snapshots"] = kept.snapshots.size();
    told.data["unreadable"] = std::move(unreadable);
    log::warn("the store is new: records were taken from the copies beside it, what happened before is not "
              "in its events",
              {{"sandboxes", fmt::to_string(kept.sandboxes.size())},
               {"snapshots", fmt::to_string(kept.snapshots.size())},
               {"unreadable", fmt::to_string(kept.unreadable.size())}});
    return append_events(db, {std::move(told)}, now);
}

/// A store that is older than its copies.
Status copy_all(Connection& db, const Copies& copies)
{
    RecordQuery query{.with_dead = true};
    for (;;) {
        BERTH_TRY(const auto page, list_records(db, query));
        for (const auto& record : page)
            if (record.damage.empty()) copies.keep(record);
        if (page.size() < query.limit) break;
        query.after = page.back().id();
    }
    BERTH_TRY(const auto snapshots, list_snapshots(db, {}));
    for (const auto& snapshot : snapshots) copies.keep(snapshot);
    return {};
}

} // namespace

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& path, const Clock& clock)
{
    {
        // Made by us, so that SQLite gives its journal the same mode; one that is there is left alone, and
        // not even opened: closing it would free the locks of every other store of this process on the same
        // file (fcntl(2)), and the next process to leave would take its journal away.
        const UniqueFd made(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
        if (!made && errno == ENOSPC) return no_room_in(path.substr(0, path.find_last_of('/')));
        if (!made && (errno != EEXIST || ::access(path.c_str(), R_OK | W_OK) != 0))
            return fail_errno("opening the store {}", path);
    }
    BERTH_TRY(auto writes, Connection::open(path));
    Copies copies(path);
    BERTH_CHECK(migrate(writes, [&](Connection& db) { return fill(db, copies, clock.now()); }));
    BERTH_TRY(auto reads, Connection::open(path));
    BERTH_TRY(auto owner, read_owner(reads));
    if (copies.owner() != owner) copies.keep_owner(owner);
    if (copies.begin()) BERTH_CHECK(copy_all(reads, copies));
    return std::unique_ptr<SqliteStore>(new SqliteStore(path, std::move(writes), std::move(reads), clock,
                                                        std::move(owner), std::move(copies)));
}

Result<std::unique_ptr<SqliteStore>> SqliteStore::open_to_read(const std::string& path, const Clock& clock)
{
    BERTH_TRY(auto reads, Connection::open_alone(path));
    BERTH_TRY(auto owner, read_owner(reads));
    return std::unique_ptr<SqliteStore>(
        new SqliteStore(path, no_room_in(path.substr(0, path.find_last_of('/'))).error(), std::move(reads),
                        clock, std::move(owner), Copies(path)));
}

Status SqliteStore::write(const Writer::Work& work, const std::vector<LedgerEvent>& events)
{
    return writer_.write([&](Connection& db) -> Status {
        BERTH_CHECK(work(db));
        return append_events(db, events, clock_->now());
    });
}

Result<SandboxRecord> SqliteStore::insert(SandboxRecord record, std::vector<LedgerEvent> events)
{
    record.version = 1;
    BERTH_CHECK(write([&](Connection& db) { return insert_record(db, record); }, events));
    copies_.keep(record);
    return record;
}

Result<SandboxRecord> SqliteStore::update(SandboxRecord record, std::vector<LedgerEvent> events)
{
    const std::uint64_t before = record.version++;
    BERTH_CHECK(write([&](Connection& db) { return update_record(db, record, before); }, events));
    copies_.keep(record);
    return record;
}

Result<SandboxRecord> SqliteStore::replace(SandboxRecord first, SandboxRecord second,
                                           std::vector<LedgerEvent> events)
{
    const std::uint64_t first_before = first.version++;
    const std::uint64_t second_before = second.version++;
    BERTH_CHECK(write(
        [&](Connection& db) -> Status {
            BERTH_CHECK(update_record(db, first, first_before));
            return update_record(db, second, second_before);
        },
        events));
    copies_.keep(first);
    copies_.keep(second);
    return second;
}

/// Nobody waits for the disk: a machine that crashes ends every use.
Status SqliteStore::touch(const std::string& id, WallTime used)
{
    return writer_.write([&](Connection& db) { return touch_record(db, id, used); }, Writer::Until::Written);
}

Result<std::optional<SandboxRecord>> SqliteStore::find(const std::string& id)
{
    const std::scoped_lock alone(reading_);
    return find_record(reads_, id);
}

Result<std::optional<SandboxRecord>> SqliteStore::find_key(const std::string& key)
{
    const std::scoped_lock alone(reading_);
    return find_key_record(reads_, key);
}

Result<std::vector<SandboxRecord>> SqliteStore::list(const RecordQuery& query)
{
    const std::scoped_lock alone(reading_);
    return list_records(reads_, query);
}

Result<std::size_t> SqliteStore::forget_ended(WallTime before, std::size_t limit)
{
    std::size_t gone = 0;
    BERTH_CHECK(writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(gone, delete_ended(db, before, limit));
        return {};
    }));
    return gone;
}

Result<std::size_t> SqliteStore::count_ended(WallTime before, std::size_t limit)
{
    const std::scoped_lock alone(reading_);
    BERTH_TRY(const auto ids, list_ended(reads_, before, limit));
    return ids.size();
}

/// The sync is under way when it returns, and nobody waits for it: what is written outlives every process of
/// ours, and a machine that crashes ends the command itself.
Status SqliteStore::add_exec(ExecRecord exec, std::vector<LedgerEvent> events)
{
    const auto work = [&](Connection& db) -> Status {
        BERTH_CHECK(insert_exec(db, exec));
        BERTH_CHECK(touch_record(db, exec.sandbox, exec.started));
        return append_events(db, events, clock_->now());
    };
    BERTH_CHECK(writer_.write(work, Writer::Until::Written));
    journal_.sync_soon();
    return {};
}

/// Synced behind the commit and not with it: the next command's beginning does not wait for the disk.
Status SqliteStore::end_exec(ExecRecord exec, std::vector<LedgerEvent> events)
{
    const auto work = [&](Connection& db) -> Status {
        BERTH_TRY(const bool first, end_exec_row(db, exec.id, exec.ended, exec.outcome));
        if (!first) return {};
        BERTH_CHECK(touch_record(db, exec.sandbox, exec.ended));
        return append_events(db, events, clock_->now());
    };
    BERTH_CHECK(writer_.write(work, Writer::Until::Written));
    return journal_.sync();
}

Status SqliteStore::note_exec(const ExecRecord& exec)
{
    return write([&](Connection& db) { return note_exec_row(db, exec); }, {});
}

Result<std::vector<ExecRecord>> SqliteStore::execs_due(WallTime by, std::size_t limit)
{
    const std::scoped_lock alone(reading_);
    return list_execs_due(reads_, by, limit);
}

Result<std::vector<ExecRecord>> SqliteStore::execs(const std::string& sandbox, bool running_only)
{
    const std::scoped_lock alone(reading_);
    return list_execs(reads_, sandbox, running_only);
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
    BERTH_CHECK(write(
        [&](Connection& db) -> Status {
            BERTH_CHECK(insert_snapshot(db, snapshot));
            return snapshot.internal ? Status{} : set_latest_snapshot(db, snapshot.sandbox, snapshot.id);
        },
        events));
    copies_.keep(snapshot);
    if (snapshot.internal) return {};
    const auto of = find(snapshot.sandbox);
    if (of && *of && (*of)->damage.empty()) copies_.keep(**of);
    return {};
}

Result<std::optional<SnapshotRecord>> SqliteStore::find_snapshot(const std::string& id)
{
    const std::scoped_lock alone(reading_);
    return find_snapshot_row(reads_, id);
}

Result<std::vector<SnapshotRecord>> SqliteStore::snapshots(const std::string& sandbox)
{
    const std::scoped_lock alone(reading_);
    return list_snapshots(reads_, sandbox);
}

/// Not in its copy: whoever needs that one has it counted again.
Status SqliteStore::size_snapshot(const std::string& id, std::uint64_t bytes)
{
    return writer_.write([&](Connection& db) { return set_snapshot_bytes(db, id, bytes); });
}

Status SqliteStore::remove_snapshot(const std::string& id, std::vector<LedgerEvent> events)
{
    BERTH_CHECK(writer_.write([&](Connection& db) -> Status {
        BERTH_TRY(const bool was_there, delete_snapshot(db, id));
        return was_there ? append_events(db, events, clock_->now()) : Status{};
    }));
    copies_.forget(id);
    return {};
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
