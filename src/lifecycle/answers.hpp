#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "core/backend.hpp"
#include "core/capabilities.hpp"
#include "core/record.hpp"
#include "core/snapshot.hpp"

/// What a Lifecycle is asked, and what it answers.
namespace berth {

/// Which tier gave a sandbox.
enum class Tier {
    Attached, ///< it was running
    Started,  ///< it was stopped or paused, its files are as they were
    Restored, ///< its instance was gone: made anew from a snapshot
    Fresh,    ///< a new one
};

[[nodiscard]] std::string_view to_string(Tier tier) noexcept;

/// What to do when the instance of a known sandbox is gone.
enum class OnStateLoss {
    Restore, ///< the newest snapshot; a new sandbox only where there never was one
    Error,
    Fresh, ///< a new sandbox where no snapshot can be restored
};

[[nodiscard]] Result<OnStateLoss> parse_on_state_loss(std::string_view text);

/// What is said of how long a sandbox is kept.
struct RetentionWish {
    std::optional<std::chrono::seconds> idle;
    std::optional<OnIdle> on_idle; ///< nothing: as it was, of a new one stop
    std::optional<std::chrono::seconds> lifetime;
};

struct AcquireRequest {
    SandboxSpec spec; ///< without an id
    std::string key;
    std::string backend = "local";
    RetentionWish retention; ///< of one that is known, what is not said stays as it is
    bool never_idle = false; ///< takes its idle time back, and what was to happen then
    bool never_old = false;  ///< and its lifetime
    OnStateLoss on_loss = OnStateLoss::Restore;
    MakeProgress progress{}; ///< of a new instance
    /// Asked of a new one before it is anybody's: where this fails it is destroyed, and whoever had the key
    /// keeps it.
    std::function<Task<Status>(SandboxRecord)> accept{};
};

struct Acquired {
    SandboxRecord record;
    Tier tier = Tier::Fresh;
    std::string snapshot;                         ///< Restored: which
    std::optional<std::chrono::nanoseconds> lost; ///< Restored: how much life came after the snapshot
    std::optional<WallTime> unsynced_since;       ///< Started: the machine went down meanwhile
    std::vector<std::string> notes;
};

/// The kinds of snapshots that can be made on, and restored to, a backend: its own, and the workspace tar
/// where it has archives. The best first.
[[nodiscard]] std::vector<std::string> made_by(const Capabilities& have);
[[nodiscard]] std::vector<std::string> restored_by(const Capabilities& have);

struct SnapshotWish {
    std::string kind; ///< empty: the backend's best
    std::string note;
    bool internal = false;
    std::function<void(std::uint64_t bytes)> progress{}; ///< as in SnapshotRequest
};

struct SnapshotAnswer {
    SnapshotRecord record;
    std::chrono::nanoseconds elapsed{0};
    std::vector<std::string> notes;
};

struct RestoreWish {
    bool as_new = false; ///< a new sandbox, also when the old one lives
    std::string name;
    std::string key;
    std::string backend; ///< of a new one; empty: that of the snapshot
    // Of a new one; nothing: as the snapshot's sandbox had them.
    std::optional<std::vector<Volume>> volumes{};
    std::optional<policy::Limits> limits{}; ///< memory and cpus alone
    std::optional<Template> root{};         ///< what it stands on, where not all of the root comes along
};

struct ForkWish {
    std::size_t count = 1;
    std::string name; ///< of the only one; with several "name-1", "name-2", …
};

struct ForkAnswer {
    std::vector<SandboxRecord> forks;
    bool live_copy = false;
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds elapsed{0};
    std::vector<std::string> notes;
};

struct MoveWish {
    std::string backend;          ///< where to
    std::string kind;             ///< of the snapshot it travels as; empty: the best that both know
    std::optional<Template> root; ///< what it stands on there, where not all of the root comes along
};

/// What came along and what did not.
struct MoveAnswer {
    SandboxRecord record;
    std::string from; ///< the backend it was on
    std::string kind;
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds elapsed{0};
    std::vector<std::string> carried;
    std::vector<std::string> left;
    std::vector<std::string> notes;
};

struct GcWish {
    bool dry_run = false;
    std::chrono::seconds grace = std::chrono::hours(24); ///< of what is superseded, and of unknown payloads
    bool orphans = false; ///< instances older than the store that it does not know
    // Of snapshots. What one of the first two keeps stays, and the newest of a sandbox that is not over
    // unless the last none are wished.
    std::optional<std::size_t> keep_last; ///< of each sandbox
    std::optional<std::chrono::seconds> keep_within;
    std::optional<Bytes> keep_bytes; ///< of all that these keep; the oldest go first
    std::chrono::seconds keep_records = std::chrono::hours(24 * 30); ///< of what is destroyed, and its events
    const bool* over = nullptr; ///< whoever asked wants no more of it, once it is true
};

enum class Sweep {
    Deadlines, ///< the idle and the overdue, also commands
    All,       ///< also what crashed, and instances against records, on the backends that records name
};

/// One thing that was done, or would be.
struct GcAction {
    std::string what;   ///< "stop", "destroy", "finish", "remove snapshot", …
    std::string object; ///< its id
    std::string why;
    std::string failed; ///< empty: it was done
};

struct GcReport {
    std::vector<GcAction> actions;
    std::uint64_t bytes = 0;
};

} // namespace berth
