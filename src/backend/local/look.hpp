#pragma once

#include <string>
#include <vector>

#include "backend/local/shared.hpp"
#include "backend/local/state_dir.hpp"
#include "core/backend.hpp"
#include "keeping/pause.hpp"

namespace berth::local {

/// How an instance is now, whoever made it. It changes nothing but what a killed snapshot left frozen.
[[nodiscard]] Found look_at(const StateDir& state, const std::string& native);

/// All there are.
[[nodiscard]] Result<std::vector<Found>> look_at_all(const StateDir& state);

/// Whether the instance of this directory is paused; not when it has no groups, or is gone.
[[nodiscard]] Paused paused_now(int directory);

} // namespace berth::local
