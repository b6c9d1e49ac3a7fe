#pragma once

#include "core/backend.hpp"

/// The snapshot that every backend with archives can make and restore: the tree of the sandbox's user, as
/// a compressed tar. What lies elsewhere in the root is not part of it, and the answer says so.
namespace berth::workspace_tar {

/// Where that tree is: the working directory that was asked for, else the user's home.
[[nodiscard]] std::string tree_of(const SandboxSpec& spec);

[[nodiscard]] Task<Result<SnapshotTaken>> take(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                               std::string directory);
/// Into an instance that was just made.
[[nodiscard]] Task<Status> restore(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                   std::string directory);

} // namespace berth::workspace_tar
