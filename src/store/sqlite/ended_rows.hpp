#pragma once

#include <string>
#include <vector>

#include "core/record.hpp"
#include "store/sqlite/connection.hpp"

namespace berth::store {

/// Sandboxes that are over since before `before` and that nothing needs, the longest dead first.
[[nodiscard]] Result<std::vector<std::string>> list_ended(Connection& db, WallTime before, std::size_t limit);

/// Removes those with all that is told of them (Store::forget_ended); how many.
[[nodiscard]] Result<std::size_t> delete_ended(Connection& db, WallTime before, std::size_t limit);

} // namespace berth::store
