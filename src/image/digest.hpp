#pragma once

#include <string>

#include "base/result.hpp"

namespace berth::image {

/// The SHA-256 of an open file from its beginning, as 64 hexadecimal digits; `what` names it in errors.
[[nodiscard]] Result<std::string> sha256_of(int fd, const std::string& what);

} // namespace berth::image
