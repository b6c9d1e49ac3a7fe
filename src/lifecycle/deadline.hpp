#pragma once

#include "core/backend.hpp"
#include "core/record.hpp"

namespace berth {

/// Notes in an exec's record when its time is over, so that this is known when whoever minds it is gone.
Task<Status> set_deadline(Backend& backend, SandboxHandle sandbox, std::chrono::nanoseconds timeout,
                          ExecRecord& exec);

/// The same for one that has a deadline, by how long its sandbox has been paused since.
[[nodiscard]] WallTime deadline_of(const ExecRecord& exec, std::chrono::milliseconds paused_in_all);

} // namespace berth
