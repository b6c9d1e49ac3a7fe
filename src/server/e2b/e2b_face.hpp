#pragma once

#include <memory>

#include "server/e2b/settings.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// E2B's protocol: control plane, envd, and the proxy to ports of sandboxes.
[[nodiscard]] std::unique_ptr<gate::Face> make_face(gate::Ground& ground, Settings settings);

} // namespace berth::e2b
