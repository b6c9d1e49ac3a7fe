#pragma once

#include <cstddef>

namespace berth {

/// Encodes from the front what can be done in large steps, and says how many bytes that was: a multiple of
/// three, and none where the processor has no such steps. It reads no more than `size` bytes.
[[nodiscard]] std::size_t base64_encode_wide(const char* from, std::size_t size, char* to) noexcept;

} // namespace berth
