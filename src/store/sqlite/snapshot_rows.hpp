#pragma once

#include <optional>
#include <vector>

#include "core/store.hpp"
#include "store/sqlite/connection.hpp"

/// Rows of the table `snapshot`.
namespace berth::store {

[[nodiscard]] Status insert_snapshot(Connection& db, const SnapshotRecord& snapshot);
[[nodiscard]] Status set_snapshot_bytes(Connection& db, const std::string& id, std::uint64_t bytes);
[[nodiscard]] Result<std::optional<SnapshotRecord>> find_snapshot_row(Connection& db, const std::string& id);
[[nodiscard]] Result<std::vector<SnapshotRecord>> list_snapshots(Connection& db, const std::string& sandbox);
/// False: there was none.
[[nodiscard]] Result<bool> delete_snapshot(Connection& db, const std::string& id);

} // namespace berth::store
