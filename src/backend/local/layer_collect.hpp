#pragma once

#include <string>

#include "backend/local/state_dir.hpp"
#include "core/backend.hpp"

namespace berth::local {

/// Removes the layers that no instance's record and no manifest below `snapshots` (`<snapshots>/*/manifest`)
/// names, and copies that were never finished; also unpacked templates that none of them needs and nobody
/// asked for of late. While it looks nobody makes or names a layer. What cannot be read might name any of
/// them: then nothing is removed and the reason told.
[[nodiscard]] Result<Collected> collect_layers(const StateDir& state, const std::string& snapshots,
                                               bool dry_run);

} // namespace berth::local
