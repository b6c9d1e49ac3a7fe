#pragma once

#include <chrono>
#include <string>

#include "base/bytes.hpp"
#include "base/clock.hpp"

/// Times and sizes as people and other programs read them. `show` of base/strings.hpp is exact; these are
/// rounded.
namespace berth {

/// "2026-03-01T12:00:00.250Z".
[[nodiscard]] std::string rfc3339(WallTime time);

/// Two or three digits that matter: "340ms", "12s", "5m", "3h", "41d". A negative one is "0s".
[[nodiscard]] std::string brief(std::chrono::nanoseconds duration);
/// "812 B", "12.3 KiB", "4.0 GiB".
[[nodiscard]] std::string brief(Bytes bytes);

} // namespace berth
