#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::codex {

/// A pattern of the wire as patterns that policies know: "{a,b}" is written out, and a bracket that nothing
/// closes in its component is itself. Invalid: it has no meaning, or too many.
[[nodiscard]] Result<std::vector<std::string>> read_deny_pattern(std::string_view text);

/// The other way: a pattern that the wire reads as policies do.
[[nodiscard]] std::string write_deny_pattern(std::string_view pattern);

} // namespace berth::codex
