#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "backend/local/pools.hpp"
#include "backend/local/state_dir.hpp"
#include "base/result.hpp"
#include "core/exec_event.hpp"
#include "core/exec_spec.hpp"
#include "core/run_outcome.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::local {

/// Where a one-shot's streams go. Descriptors are borrowed.
struct RunStreams {
    int in = -1; ///< -1: nothing to read
    int out = 1;
    int err = 2;
    /// When set, gets every event instead of `out` and `err` being written.
    std::function<void(const ExecEvent&)> on_event;
    /// Once it is true nobody wants its events: the command finds that out as it would of a pipe. Borrowed.
    const bool* unheard = nullptr;
};

using berth::RunOutcome;

/// One command in a throw-away sandbox that dies with us.
[[nodiscard]] Result<RunOutcome> run_one_shot(const StateDir& state, const SandboxSpec& sandbox,
                                              const ExecSpec& exec, const RunStreams& streams,
                                              const Pools::Progress& progress, Pools* pools = nullptr);

} // namespace berth::local
