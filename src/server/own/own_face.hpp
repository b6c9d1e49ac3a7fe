#pragma once

#include <memory>

#include "server/gate/face.hpp"

namespace berth::own {

/// berth's own API, below /v1, described by /openapi.json.
[[nodiscard]] std::unique_ptr<gate::Face> make_face(gate::Ground& ground);

} // namespace berth::own
