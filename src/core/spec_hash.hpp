#pragma once

#include <string>

#include "core/sandbox_spec.hpp"

namespace berth {

/// What a sandbox was made from, in 35 characters: an instance may be used again only for an equal one.
/// Names, ids and labels do not count, nor do the order of mounts and volumes and where the host keeps
/// a volume; everything that changes what runs inside does. "v1-" and the first 32 digits of a SHA-256
/// over canonical JSON.
[[nodiscard]] std::string spec_hash(const SandboxSpec& spec);

} // namespace berth
