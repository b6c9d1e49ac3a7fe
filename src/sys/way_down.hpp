#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace berth::sys {

/// The names that lead from the directory `above` to the directory `below`, whose real path is `real`, by
/// what both are and not by what they are called: empty when they are one, nothing when they do not lead
/// there.
[[nodiscard]] Result<std::optional<std::string>> way_down(int above, int below, const std::string& real);

} // namespace berth::sys
