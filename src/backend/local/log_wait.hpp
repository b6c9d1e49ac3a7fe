#pragma once

#include "backend/local/exec_follower.hpp"
#include "base/clock.hpp"
#include "base/task.hpp"

namespace berth::local {

/// Suspends until the exec's log has grown, its keeper has gone, or the time is over. The caller
/// waits on the loop: no thread is held.
Task<void> log_grows(const ExecFollower& follower, SteadyTime until);

/// The same for who looks at the log in its own way: forgets the growth that is known. False when
/// the keeper has gone.
[[nodiscard]] bool clear_growth(const ExecFollower& follower);

} // namespace berth::local
