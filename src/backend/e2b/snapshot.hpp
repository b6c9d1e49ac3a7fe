#pragma once

#include "backend/e2b/cloud.hpp"
#include "core/snapshot.hpp"

namespace berth::e2b_client {

/// A snapshot that the cloud keeps; what is kept here is its name.
inline constexpr std::string_view kSnapshot = "e2b_snapshot";

[[nodiscard]] Result<SnapshotTaken> take_snapshot(Cloud& cloud, const std::string& id,
                                                  const SnapshotRequest& request);
/// What to start from instead of a template.
[[nodiscard]] Result<std::string> snapshot_template(const SnapshotSource& from);
[[nodiscard]] Status remove_snapshot(Cloud& cloud, const SnapshotSource& snapshot);

} // namespace berth::e2b_client
