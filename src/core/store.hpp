#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "core/sandbox_spec.hpp"
#include "core/state.hpp"

namespace berth {

/// A logical sandbox: it survives every instance a backend makes for it.
struct SandboxRecord {
    SandboxSpec spec; ///< its id is the record's
    std::string key;  ///< finds it from any process; at most one live record has it; empty: none
    std::string backend;
    std::string native; ///< the backend's own name of the present instance
    State state = State::Creating;
    std::uint64_t generation = 1; ///< grows with each instance that replaces another
    std::string spec_hash;
    std::string latest_snapshot;
    std::string superseded_by; ///< the record that took its key with another spec
    WallTime created{};
    WallTime last_used{};
    std::uint64_t version = 0; ///< grows with each write; the store's own

    [[nodiscard]] const std::string& id() const noexcept { return spec.id; }
    /// Holds its key: neither destroyed, failed nor superseded.
    [[nodiscard]] bool live() const noexcept;
    bool operator==(const SandboxRecord&) const = default;
};

/// One line of the ledger. Never changed, never removed.
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
};

struct SnapshotRecord {
    std::string id; ///< "snap_…"
    std::string sandbox;
    std::string kind; ///< an open word: "berth_layer"; a backend names those it restores
    std::string parent;
    std::string note;
    std::string sha256;
    std::uint64_t bytes = 0;
    WallTime created{};
    bool operator==(const SnapshotRecord&) const = default;
};

struct RecordQuery {
    std::string id_prefix;
    std::string name;
    std::string backend;
    bool with_dead = false; ///< destroyed, failed and superseded ones too
    std::string after;      ///< id, exclusive: the next page
    std::size_t limit = 1000;
};

/// The durable memory of sandboxes. What a call wrote is on disk when it returns; several processes may
/// use one store at once. Calls block: a program with an event loop makes them on its pool.
class Store {
public:
    virtual ~Store() = default;

    /// A new record and the events that tell of it, together or not at all. Conflict: the id exists, or a
    /// live record has the key. Answers with the version it was given.
    [[nodiscard]] virtual Result<SandboxRecord> insert(SandboxRecord record,
                                                       std::vector<LedgerEvent> events) = 0;
    /// Conflict: somebody wrote it since `record.version` was read, or the key is taken.
    [[nodiscard]] virtual Result<SandboxRecord> update(SandboxRecord record,
                                                       std::vector<LedgerEvent> events) = 0;
    [[nodiscard]] virtual Result<std::optional<SandboxRecord>> find(const std::string& id) = 0;
    /// The live one.
    [[nodiscard]] virtual Result<std::optional<SandboxRecord>> find_key(const std::string& key) = 0;
    /// Sorted by id, which is by age.
    [[nodiscard]] virtual Result<std::vector<SandboxRecord>> list(const RecordQuery& query) = 0;

    /// Answers with the sequence of the last one.
    [[nodiscard]] virtual Result<std::uint64_t> append(std::vector<LedgerEvent> events) = 0;
    [[nodiscard]] virtual Result<std::vector<LedgerEvent>> ledger(const LedgerQuery& query) = 0;

    /// The payload must be on disk before: a record without one would be a lie.
    [[nodiscard]] virtual Status add_snapshot(SnapshotRecord snapshot, std::vector<LedgerEvent> events) = 0;
    [[nodiscard]] virtual Result<std::optional<SnapshotRecord>> find_snapshot(const std::string& id) = 0;
    /// Of one sandbox, newest first; of all when `sandbox` is empty.
    [[nodiscard]] virtual Result<std::vector<SnapshotRecord>> snapshots(const std::string& sandbox) = 0;
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
