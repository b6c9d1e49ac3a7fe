#pragma once

#include "base/clock.hpp"
#include "base/task.hpp"
#include "keeping/exec_follower.hpp"

namespace berth::keeping {

/// Suspends until the exec's log has grown, its keeper has gone, or the time is over. The caller
/// waits on the loop: no thread is held.
Task<void> log_grows(const ExecFollower& follower, SteadyTime until);

/// The same for who looks at the log in its own way: forgets the growth that is known. False when
/// the keeper has gone.
[[nodiscard]] bool clear_growth(const ExecFollower& follower);

} // namespace berth::keeping
