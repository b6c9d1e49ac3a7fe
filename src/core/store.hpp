#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "core/record.hpp"

namespace berth {

/// One line of the ledger. Never changed, and removed only with its sandbox (Store::forget_ended).
struct LedgerEvent {
    std::uint64_t sequence = 0; ///< given by the store: rises without end, also when the clock steps back
    WallTime time{};
    std::string sandbox;
    std::string type; ///< "sandbox_created", …
    json::Object data;
    bool operator==(const LedgerEvent&) const = default;
};

struct LedgerQuery {
    std::uint64_t after = 0; ///< exclusive
    std::size_t limit = 1000;
    std::string sandbox; ///< empty: of all
    std::string type;    ///< empty: any
    bool newest = false; ///< the last ones of those, in their order all the same
};

struct RecordQuery {
    std::string id_prefix;
    std::string name;
    std::string backend;
    bool with_dead = false;  ///< destroyed, failed and superseded ones too
    bool superseded = false; ///< only those that gave their key up and are not over
    WallTime due_by{};       ///< only those whose deadline is not later, superseded ones too; zero: all
    std::string after;       ///< id, exclusive: the next page
    std::size_t limit = 1000;
};

/// The durable memory of sandboxes. What a call wrote is on disk when it returns, but for add_exec and touch;
/// several processes may use one store at once. Calls block: a program with an event loop makes them on its
/// pool.
class Store {
public:
    virtual ~Store() = default;

    /// Who we are to a backend that lists instances: made once, with the store.
    [[nodiscard]] virtual const std::string& owner() const = 0;

    /// A new record and the events that tell of it, together or not at all. Conflict: the id exists, or a
    /// live record has the key. Answers with the version it was given.
    [[nodiscard]] virtual Result<SandboxRecord> insert(SandboxRecord record,
                                                       std::vector<LedgerEvent> events) = 0;
    /// Conflict: somebody wrote it since `record.version` was read, or the key is taken.
    [[nodiscard]] virtual Result<SandboxRecord> update(SandboxRecord record,
                                                       std::vector<LedgerEvent> events) = 0;
    /// `first` gives its key up, `second` takes it: both or neither. Conflict as for update().
    [[nodiscard]] virtual Result<SandboxRecord> replace(SandboxRecord first, SandboxRecord second,
                                                        std::vector<LedgerEvent> events) = 0;
    /// It was used now, and is due by what its record says at that moment: without disturbing whoever changes
    /// it. On disk with what is written after it.
    [[nodiscard]] virtual Status touch(const std::string& id, WallTime used) = 0;
    [[nodiscard]] virtual Result<std::optional<SandboxRecord>> find(const std::string& id) = 0;
    /// The live one.
    [[nodiscard]] virtual Result<std::optional<SandboxRecord>> find_key(const std::string& key) = 0;
    /// Sorted by id, which is by age. One that cannot be read is among them, and says so.
    [[nodiscard]] virtual Result<std::vector<SandboxRecord>> list(const RecordQuery& query) = 0;

    /// Records of sandboxes that are over since before `before`, with their execs and events: as many as
    /// `limit`, the oldest first; how many. What somebody may still ask for stays: one that a snapshot is of,
    /// receipts of proofs, and the event that tells how old the store is.
    [[nodiscard]] virtual Result<std::size_t> forget_ended(WallTime before, std::size_t limit) = 0;
    /// How many forget_ended() would take, up to `limit`.
    [[nodiscard]] virtual Result<std::size_t> count_ended(WallTime before, std::size_t limit) = 0;

    /// Its sandbox is used, as by touch(). Outlives all our processes at once, a crash soon.
    [[nodiscard]] virtual Status add_exec(ExecRecord exec, std::vector<LedgerEvent> events) = 0;
    /// With `ended` and `outcome` set. Ended already is success and changes nothing: an end is told once.
    [[nodiscard]] virtual Status end_exec(ExecRecord exec, std::vector<LedgerEvent> events) = 0;
    /// Its `due` and `overdue`, while it has not ended.
    [[nodiscard]] virtual Status note_exec(const ExecRecord& exec) = 0;
    /// Those that have not ended and are due.
    [[nodiscard]] virtual Result<std::vector<ExecRecord>> execs_due(WallTime by, std::size_t limit) = 0;
    /// Oldest first, of one sandbox.
    [[nodiscard]] virtual Result<std::vector<ExecRecord>> execs(const std::string& sandbox,
                                                                bool running_only) = 0;

    /// Answers with the sequence of the last one.
    [[nodiscard]] virtual Result<std::uint64_t> append(std::vector<LedgerEvent> events) = 0;
    [[nodiscard]] virtual Result<std::vector<LedgerEvent>> ledger(const LedgerQuery& query) = 0;

    /// The payload must be on disk before: a record without one would be a lie. Its sandbox, if it is there,
    /// names it as its latest from then on, in the same write; an internal one it does not.
    [[nodiscard]] virtual Status add_snapshot(SnapshotRecord snapshot, std::vector<LedgerEvent> events) = 0;
    [[nodiscard]] virtual Result<std::optional<SnapshotRecord>> find_snapshot(const std::string& id) = 0;
    /// Of one sandbox, newest first; of all when `sandbox` is empty. Internal ones too.
    [[nodiscard]] virtual Result<std::vector<SnapshotRecord>> snapshots(const std::string& sandbox) = 0;
    /// How much it takes, of one that was recorded without. Already gone is success.
    [[nodiscard]] virtual Status size_snapshot(const std::string& id, std::uint64_t bytes) = 0;
    /// Already gone is success.
    [[nodiscard]] virtual Status remove_snapshot(const std::string& id, std::vector<LedgerEvent> events) = 0;

    /// True when `holder` has the lease `name` now: it was free, its own, or over. Whoever stops renewing
    /// loses it.
    [[nodiscard]] virtual Result<bool> lease(const std::string& name, const std::string& holder,
                                             std::chrono::milliseconds duration) = 0;
    /// Not held is success.
    [[nodiscard]] virtual Status release(const std::string& name, const std::string& holder) = 0;
};

} // namespace berth
