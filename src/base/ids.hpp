#pragma once

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace berth {

/// The 26 lower-case base-32 characters of a fresh UUIDv7: they sort by time, and
/// they are what a protocol without prefixes (E2B) shows as the id.
[[nodiscard]] std::string make_bare_id(const Clock& clock);

[[nodiscard]] std::string make_sandbox_id(const Clock& clock);  ///< "sbx_…"
[[nodiscard]] std::string make_exec_id(const Clock& clock);     ///< "exec_…"
[[nodiscard]] std::string make_snapshot_id(const Clock& clock); ///< "snap_…"

/// True when `id` is `prefix` followed by exactly 26 characters of the alphabet.
[[nodiscard]] bool is_id(std::string_view id, std::string_view prefix) noexcept;

/// `bytes` random bytes as lower-case hexadecimal digits.
[[nodiscard]] std::string random_hex(std::size_t bytes);

} // namespace berth
