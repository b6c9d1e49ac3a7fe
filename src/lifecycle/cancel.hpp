#pragma once

#include <chrono>

#include "lifecycle/lifecycle.hpp"

/// The end of a command that somebody asks for.
namespace berth {

inline constexpr std::chrono::milliseconds kCancelGrace{5'000}; ///< when nothing is said
inline constexpr std::chrono::milliseconds kLongestCancelGrace{60'000};

/// TERM to the command and its group; after `grace` KILL to everything it started, or at once to what is left
/// when the command itself has ended. Returns when it has: its record says how, in the kernel's words. No
/// grace, and a paused sandbox, whose processes hear nothing: KILL at once. One that has ended is success.
[[nodiscard]] Task<Result<ExecRecord>> cancel_exec(Lifecycle& lifecycle, SandboxRecord sandbox,
                                                   ExecRecord exec, std::chrono::milliseconds grace);

} // namespace berth
