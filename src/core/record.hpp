#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "core/sandbox_spec.hpp"
#include "core/state.hpp"

namespace berth {

/// What becomes of a sandbox that nobody uses.
enum class OnIdle { Stop, SnapshotThenStop, Destroy };

[[nodiscard]] std::string_view to_string(OnIdle action) noexcept;
[[nodiscard]] Result<OnIdle> parse_on_idle(std::string_view text);

/// How long a sandbox is kept, and how.
struct Retention {
    std::optional<std::chrono::seconds> idle; ///< without an exec; nothing: for ever
    OnIdle on_idle = OnIdle::Stop;
    std::optional<std::chrono::seconds> lifetime; ///< from its creation to its destruction
    bool operator==(const Retention&) const = default;
};

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
    Retention retention;
    std::string failure; ///< why it has failed
    std::string damage;  ///< why the store cannot read it; then only names, backend and state are true
    WallTime created{};
    WallTime changed{}; ///< when its state did
    WallTime last_used{};
    WallTime due{};            ///< when somebody must look at it again; zero: never
    std::uint64_t version = 0; ///< grows with each write; the store's own

    [[nodiscard]] const std::string& id() const noexcept { return spec.id; }
    /// Holds its key: neither destroyed, failed nor superseded.
    [[nodiscard]] bool live() const noexcept;
    /// Destroyed, failed or detached: it has no instance, and will have none.
    [[nodiscard]] bool over() const noexcept;
    /// When idleness or age must be looked at, by what the record says.
    [[nodiscard]] WallTime deadline() const noexcept;
    bool operator==(const SandboxRecord&) const = default;
};

/// A snapshot; what it consists of lies in a directory of its own.
struct SnapshotRecord {
    std::string id; ///< "snap_…"
    std::string sandbox;
    std::string kind; ///< an open word: "berth_layer"; a backend names those it restores
    std::string backend;
    std::string parent; ///< the snapshot before it, or the one the sandbox was made from
    std::string note;
    std::string file;        ///< the payload in its directory, where the kind has one
    std::string sha256;      ///< of that file
    std::uint64_t bytes = 0; ///< of the disk that it takes; zero: nobody has looked (Lifecycle::snapshots)
    bool live_copy = false;
    bool internal = false; ///< a step of something else (a fork): nobody is shown it
    WallTime created{};
    SandboxSpec spec; ///< of the sandbox as it was
    bool operator==(const SnapshotRecord&) const = default;
};

/// A command that was run in a sandbox. Its output is in the backend's log.
struct ExecRecord {
    std::string id; ///< "exec_…"
    std::string sandbox;
    std::uint64_t generation = 1; ///< of the instance that has its log
    std::vector<std::string> argv;
    std::string cwd;
    std::string user;
    WallTime started{};
    WallTime ended{};    ///< zero: it runs, as far as is known
    std::string outcome; ///< "exit 0", "signal 9", "timed out, signal 9", "unknown", or why not started
    /// What is left when whoever minds its timeout is killed: how long it may run, how long its sandbox had
    /// been paused when it was started, when somebody must look whether its time is over (zero: never), and
    /// whether it was killed because of that.
    std::optional<std::chrono::nanoseconds> timeout{};
    std::chrono::milliseconds paused_before{0};
    WallTime due{};
    bool overdue = false;
    bool operator==(const ExecRecord&) const = default;
};

} // namespace berth
