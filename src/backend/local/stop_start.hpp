#pragma once

#include <chrono>
#include <string>

#include "backend/local/state_dir.hpp"
#include "core/backend.hpp"

namespace berth::local {

/// Ends every command with its true status, TERM first and KILL after `grace`, then the keeper; the files
/// stay, on the disk. Stopped already is success, and so is gone.
[[nodiscard]] Status stop_instance(const StateDir& state, const std::string& native,
                                   std::chrono::milliseconds grace);

/// A new keeper on the files of a stopped instance: other ids, groups, network and socket. Running
/// already is success.
[[nodiscard]] Result<Started> start_instance(const StateDir& state, const std::string& native);

/// Kills everything and removes it, in whatever state it is, also when it was never finished. Already
/// gone is success.
[[nodiscard]] Status destroy_instance(const StateDir& state, const std::string& native);

/// The same for one that has no record; false when it has one.
[[nodiscard]] Result<bool> remove_unfinished(const StateDir& state, const std::string& native);

/// Takes the directory of an instance away, all of it.
[[nodiscard]] Status discard(const StateDir& state, const std::string& native);

} // namespace berth::local
