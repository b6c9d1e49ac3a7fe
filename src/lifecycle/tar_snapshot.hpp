#pragma once

#include "core/backend.hpp"

/// Snapshots that every backend with archives can make: compressed tars. The workspace tar, the tree of the
/// sandbox's user, is restored anywhere; the root tar, everything but what is mounted, by backends that can
/// start from one. What is not part of them the answer says.
namespace berth::tar_snapshot {

[[nodiscard]] bool is_kind(std::string_view kind) noexcept;

/// Where the workspace tar's tree is: the working directory that was asked for, else the backend's own word,
/// else the user's home.
[[nodiscard]] Task<Result<std::string>> workspace_of(Backend& backend, SandboxHandle sandbox,
                                                     SandboxSpec spec);

/// Refuses the root tar of a sandbox whose root is mostly the host's own.
[[nodiscard]] Status check(const SandboxSpec& spec, std::string_view kind);

[[nodiscard]] Task<Result<SnapshotTaken>> take(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                               SnapshotRequest request);
/// A workspace tar, into an instance that was just made.
[[nodiscard]] Task<Status> restore(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                   std::string directory);

} // namespace berth::tar_snapshot
