#pragma once

#include "store/sqlite/connection.hpp"

namespace berth::store {

/// Brings a file to the schema of this program, step by step, each step together or not at all. A file
/// made by a newer one is Unsupported: it may mean things this program does not know.
[[nodiscard]] Status migrate(Connection& connection);

} // namespace berth::store
