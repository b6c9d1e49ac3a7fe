#pragma once

#include "conformance/check.hpp"

namespace berth::conformance {

[[nodiscard]] bool claimed(Context& context, const Need& need);

/// Holds when the backend refuses as Unsupported what it does not claim.
[[nodiscard]] Status refuses(Context& context, const Need& need);

} // namespace berth::conformance
