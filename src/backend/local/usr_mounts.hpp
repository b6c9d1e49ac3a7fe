#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/local/state_dir.hpp"
#include "base/result.hpp"

namespace berth::local {

// Without privileges in its mount namespace nobody may see what a mount hides, so the kernel refuses a layer
// over a directory in which something is mounted. WSL does that in /usr. An ordinary user's sandbox then has
// the host's /usr as it is, read-only, and its own layer over /usr/local alone.

/// The first of what is mounted below a directory of the host; empty: nothing.
[[nodiscard]] std::string mounted_below(std::string_view directory);

/// Frozen layers that changed /usr elsewhere than in /usr/local cannot be shown there.
[[nodiscard]] Status check_only_local(const StateDir& state, const std::vector<std::string>& stack,
                                      const std::string& mount);

/// Of frozen layers those that hold a /usr/local, by their place in the stack.
[[nodiscard]] std::vector<std::size_t> layers_with_local(const StateDir& state,
                                                         const std::vector<std::string>& stack);

} // namespace berth::local
