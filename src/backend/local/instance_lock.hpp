#pragma once

#include <chrono>
#include <string>

#include "backend/local/shared.hpp"
#include "backend/local/state_dir.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeping/lock.hpp"

namespace berth::local {

// Three locks keep the processes that work on one instance apart; each ends with whoever holds it.
// Taken in this order:
//
// That of its directory is exclusive to whoever makes, starts, stops, freezes or removes it. That of its
// logs (Turn, pause.hpp) keeps commands from being started while it is frozen or stopped. That of its
// files is shared by those who touch them from outside, and exclusive to whoever makes a layer of them.

/// The directory of an instance; NotFound when there is none.
[[nodiscard]] Result<UniqueFd> open_instance(const StateDir& state, const std::string& native);

/// The directory with its lock held exclusively, by the descriptor. NotFound: it is gone, perhaps since a
/// moment; Unavailable: somebody else changes it and is not done within the patience.
[[nodiscard]] Result<UniqueFd> lock_instance(const StateDir& state, const std::string& native,
                                             std::chrono::milliseconds patience = kLockPatience);

/// Empty where the files lie in memory: no layer is ever made of those. Unavailable when the others are not
/// done within the patience.
[[nodiscard]] Result<UniqueFd> lock_files(int directory, Use use,
                                          std::chrono::milliseconds patience = kLockPatience);

} // namespace berth::local
