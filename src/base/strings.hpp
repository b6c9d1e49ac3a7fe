#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace berth {

/// "512", "64KiB", "64K", "1.5GiB", "2G": binary units, 1024 at a time.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
/// The shortest exact form: "64 MiB", "1536 B".
[[nodiscard]] std::string show(Bytes bytes);

/// "250ms", "30s", "1.5m", "2h", "1d"; a bare number is seconds. Never negative.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
[[nodiscard]] std::string show(std::chrono::nanoseconds duration);

/// A whole number in [low, high]; the error names `what`.
[[nodiscard]] Result<long long> parse_int(std::string_view text, long long low, long long high,
                                          std::string_view what);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// The candidate nearest to `word`, or empty when none is near enough to suggest.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `text` as it may be shown on a terminal: control characters and bytes that are not
/// UTF-8 are escaped, and more than `limit` bytes are cut with an ellipsis.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 200);

/// `text` with every byte that is not part of valid UTF-8 replaced by U+FFFD.
[[nodiscard]] std::string printable_utf8(std::string_view text);

} // namespace berth
