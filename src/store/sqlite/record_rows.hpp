#pragma once

#include <optional>
#include <vector>

#include "core/store.hpp"
#include "store/sqlite/connection.hpp"

/// Rows of the table `sandbox`. Inside somebody's transaction, or for reading alone.
namespace berth::store {

[[nodiscard]] Result<State> read_state(const std::string& text);

/// The JSON of a specification in some record, which an error names.
[[nodiscard]] Result<SandboxSpec> read_kept(const std::string& text, const std::string& whose);

[[nodiscard]] Status insert_record(Connection& db, const SandboxRecord& record);
/// Conflict when its version is not `before`.
[[nodiscard]] Status update_record(Connection& db, const SandboxRecord& record, std::uint64_t before);
[[nodiscard]] Status touch_record(Connection& db, const std::string& id, WallTime used);
[[nodiscard]] Result<std::optional<SandboxRecord>> find_record(Connection& db, const std::string& id);
[[nodiscard]] Result<std::optional<SandboxRecord>> find_key_record(Connection& db, const std::string& key);
[[nodiscard]] Result<std::vector<SandboxRecord>> list_records(Connection& db, const RecordQuery& query);

[[nodiscard]] inline std::int64_t ticks(WallTime time) { return time.time_since_epoch().count(); }
[[nodiscard]] inline WallTime wall_time(std::int64_t ticks)
{
    return WallTime(std::chrono::nanoseconds(ticks));
}

} // namespace berth::store
