#pragma once

#include <string>

#include "core/record.hpp"

/// A record as a document of its own. Pure.
namespace berth::store {

[[nodiscard]] std::string copy_of(const SandboxRecord& record);
[[nodiscard]] std::string copy_of(const SnapshotRecord& snapshot);
[[nodiscard]] Result<SandboxRecord> read_sandbox_copy(const std::string& text);
[[nodiscard]] Result<SnapshotRecord> read_snapshot_copy(const std::string& text);

} // namespace berth::store
