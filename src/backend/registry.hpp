#pragma once

#include "core/registry.hpp"

namespace berth {

/// Every backend of this program: the one list of them.
[[nodiscard]] const BackendRegistry& backends();

} // namespace berth
