#pragma once

#include "backend/docker/engine.hpp"
#include "backend/docker/instance.hpp"

namespace berth::docker {

/// Waits until the keeper of a container that was just started answers, and notes its process in `instance`.
[[nodiscard]] Status await_keeper(int directory, const Engine& engine, Instance& instance);

} // namespace berth::docker
