#pragma once

#include <string>
#include <vector>

#include "backend/local/state_dir.hpp"
#include "base/result.hpp"

namespace berth::local {

// /usr of an ordinary user's sandbox on a machine where something is mounted in it (WSL does that): the
// host's as it is, read-only, and a layer of its own over /usr/local alone (submounts.hpp tells why).

/// Layers that changed /usr elsewhere than in /usr/local cannot be shown there. `layers` are directories, the
/// writable one among them; `mount` is what is in the way.
[[nodiscard]] Status check_only_local(const std::vector<std::string>& layers, const std::string& mount);

/// What frozen layers hold of /usr/local.
struct LocalLayers {
    std::vector<std::size_t> in; ///< places in the stack, the topmost first
    bool hidden = false;         ///< the lowest of them hides what is below it, the host's too
    unsigned mode = 0755;        ///< of the topmost
};
[[nodiscard]] LocalLayers local_layers(const StateDir& state, const std::vector<std::string>& stack);

} // namespace berth::local
