#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "backend/local/one_shot.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/launch.hpp"

namespace berth::local {

/// Our ends of a one-shot's descriptors.
struct RelayEnds {
    UniqueFd in;  ///< write end of the command's input; empty: none, or a terminal
    UniqueFd out; ///< read ends, non-blocking
    UniqueFd err;
    /// The write ends, held so that no pipe hangs up when the command ends: waking us at that moment
    /// would disturb the teardown. When init is gone nobody else can write, and empty is the end.
    UniqueFd out_held;
    UniqueFd err_held;
    UniqueFd report;  ///< what init tells (keeper/wire.hpp Report)
    UniqueFd signals; ///< a signalfd of what is forwarded to the command
};

struct RelayOptions {
    std::optional<std::chrono::nanoseconds> timeout;
    bool terminal = false;
    Bytes limit{~0ull}; ///< of each output stream; what comes after is read and dropped
};

/// What the relay saw. Without `status` init ended without a word: it was killed.
struct RelayResult {
    std::optional<ExitStatus> status;
    std::optional<Error> not_started;
    bool timed_out = false;
    bool disk_full = false;
    std::uint64_t dropped = 0;
    int unwritten = 0; ///< as in RunOutcome
};

/// Moves bytes between us and the command until it has ended and its pipes are empty; forwards
/// signals; kills the sandbox at the deadline. Never blocks on a slow reader for longer than the
/// deadline: a descriptor of ours is written to only when poll says so.
[[nodiscard]] Result<RelayResult> relay(const sys::Launched& init, RelayEnds ends, const RunStreams& streams,
                                        const RelayOptions& options);

} // namespace berth::local
