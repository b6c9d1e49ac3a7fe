#pragma once

#include <string>

#include "base/result.hpp"

namespace berth {

/// What an exec refuses because of what it is or what was done to it before is the caller's affair.
[[nodiscard]] Error refusal(Error error, const std::string& exec);

} // namespace berth
