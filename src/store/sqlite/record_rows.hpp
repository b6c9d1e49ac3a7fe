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
/// Conflict when its version is not `before`. `record` is told of a later use that its row knows.
[[nodiscard]] Status update_record(Connection& db, SandboxRecord& record, std::uint64_t before);
/// Whoever has read it before must read it again. One that is not there is no error.
[[nodiscard]] Status set_latest_snapshot(Connection& db, const std::string& id, const std::string& snapshot);
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
