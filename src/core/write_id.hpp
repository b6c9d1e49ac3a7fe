#pragma once

#include <cstdint>

namespace berth {

/// A client's number of a write, and how often the command took a part of it: it is the same sequence when
/// the client sends it again.
inline constexpr unsigned kPartBits = 20;
inline constexpr std::int64_t kMostWrites = std::int64_t{1} << 42;

} // namespace berth
