#pragma once

#include "backend/docker/container.hpp"
#include "backend/docker/engine.hpp"

namespace berth::docker {

/// By a name, an id or a beginning of one. NotFound when the engine has none.
[[nodiscard]] Result<Container> inspect_container(const Engine& engine, const std::string& named);

} // namespace berth::docker
