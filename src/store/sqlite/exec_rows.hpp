#pragma once

#include <vector>

#include "core/store.hpp"
#include "store/sqlite/connection.hpp"

/// Rows of the table `exec`.
namespace berth::store {

[[nodiscard]] Status insert_exec(Connection& db, const ExecRecord& exec);
/// False: it had ended before.
[[nodiscard]] Result<bool> end_exec_row(Connection& db, const std::string& id, WallTime ended,
                                        const std::string& outcome);
[[nodiscard]] Status note_exec_row(Connection& db, const ExecRecord& exec);
[[nodiscard]] Result<std::vector<ExecRecord>> list_execs_due(Connection& db, WallTime by, std::size_t limit);
[[nodiscard]] Result<std::vector<ExecRecord>> list_execs(Connection& db, const std::string& sandbox,
                                                         bool running_only);

} // namespace berth::store
