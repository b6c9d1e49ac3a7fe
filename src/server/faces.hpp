#pragma once

#include <memory>
#include <vector>

#include "server/codex/ceiling.hpp"
#include "server/e2b/settings.hpp"
#include "server/gate/face.hpp"

namespace berth::server {

/// Every protocol the server speaks, in the order in which they are asked: one line each.
[[nodiscard]] std::vector<std::unique_ptr<gate::Face>> make_faces(gate::Ground& ground,
                                                                  codex::Ceiling ceiling, e2b::Settings e2b);

} // namespace berth::server
