#pragma once

#include <functional>

#include "store/sqlite/connection.hpp"

namespace berth::store {

/// Brings a file to the schema of this program, step by step, each step together or not at all. A file
/// made by a newer one is Unsupported: it may mean things this program does not know.
/// A file that is new is given to `fill` before anybody else sees it.
[[nodiscard]] Status migrate(Connection& connection, const std::function<Status(Connection&)>& fill);

} // namespace berth::store
