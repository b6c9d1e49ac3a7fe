#pragma once

#include <memory>

#include "server/codex/ceiling.hpp"
#include "server/gate/face.hpp"

namespace berth::codex {

/// The exec-server of Codex at /codex.
[[nodiscard]] std::unique_ptr<gate::Face> make_face(gate::Ground& ground, Ceiling ceiling);

} // namespace berth::codex
