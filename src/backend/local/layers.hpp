#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "backend/local/instance_lock.hpp"
#include "backend/local/state_dir.hpp"
#include "base/result.hpp"

namespace berth::local {

// Frozen layers: what were the writable layers of an instance once, in `<state>/layer/<id>/{u1,u2}`. They
// are never changed again; any number of instances and snapshots name them in their stacks. Nobody counts
// the names: a collector looks at all of them (layer_collect.hpp).

/// Layer ids, the topmost first.
using Stack = std::vector<std::string>;

/// An overlay has 500 lowers at most, and those of an image lie below ours. Short links stand for the layers,
/// so that all of them fit into one page of mount(2) options.
constexpr std::size_t kMaxStack = 350;

[[nodiscard]] std::string make_layer_id();
[[nodiscard]] bool is_layer_id(std::string_view id) noexcept;

/// Shared by whoever makes a layer or names one, until the name stands where the collector looks for it;
/// exclusive to the collector.
[[nodiscard]] Result<UniqueFd> lock_layers(const StateDir& state, Use use,
                                           std::chrono::milliseconds patience = kLockPatience);

[[nodiscard]] Result<UniqueFd> open_layers(const StateDir& state);

/// Refuses what cannot be mounted, naming the layer: too many, a name that is none, one that is not there.
[[nodiscard]] Status check_stack(const StateDir& state, const Stack& stack);

/// Refuses the layer that would be one too many.
[[nodiscard]] Status check_depth(std::size_t layers);

} // namespace berth::local
