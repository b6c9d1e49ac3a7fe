#pragma once

#include <string>
#include <vector>

#include "core/sandbox_spec.hpp"

namespace berth::docker {

/// What the engine itself is asked for where the file rules leave nothing of the root to be written.
struct FrozenRoot {
    bool frozen = false; ///< the root file system is read-only, for every process in it
    std::vector<std::string>
        scratch; ///< temporary directories that may be written: in memory, and new with each start
};

/// Rules that the engine can hold as a whole: the root is only read, and what is written are mounts, volumes
/// and temporary directories. Other rules are held around each command alone.
[[nodiscard]] FrozenRoot frozen_root(const SandboxSpec& spec);

} // namespace berth::docker
