#pragma once

#include <vector>

#include "core/store.hpp"
#include "store/sqlite/connection.hpp"

namespace berth::store {

/// Inside somebody's transaction. An event without a time gets `now`.
[[nodiscard]] Status append_events(Connection& db, const std::vector<LedgerEvent>& events, WallTime now);

[[nodiscard]] Result<std::vector<LedgerEvent>> read_events(Connection& db, const LedgerQuery& query);

} // namespace berth::store
