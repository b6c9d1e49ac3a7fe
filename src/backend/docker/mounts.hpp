#pragma once

#include "backend/docker/instance.hpp"

namespace berth::docker {

/// Keepers listen in the state directory and the store lies there, and an engine cannot hide a part of what
/// it mounts: what contains it, or lies in it, is refused.
[[nodiscard]] Status check_mounts(const InstanceDirs& dirs, const SandboxSpec& spec);

} // namespace berth::docker
