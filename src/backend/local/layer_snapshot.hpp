#pragma once

#include <string>

#include "backend/local/state_dir.hpp"
#include "core/snapshot.hpp"

namespace berth::local {

/// Takes a snapshot of kind berth_layer of an instance that runs, is paused or is stopped.
///
/// Where nothing runs in it, its writable layers become a frozen one by a rename, and it goes on with
/// empty ones on top: constant time, whatever it holds. Where something runs, all of it is frozen while
/// its layers are copied, and goes on; Unsupported where there is no freezer.
///
/// Asking again with the same directory finds what was made. A killed caller leaves an instance that is
/// as it was, or stopped, with all its files.
[[nodiscard]] Result<SnapshotTaken> take_layer(const StateDir& state, const std::string& native,
                                               const SnapshotRequest& request);

/// What a killed copy left frozen goes on; for whoever meets the instance next.
void end_killed_copy(const StateDir& state, const std::string& native, int directory);

} // namespace berth::local
