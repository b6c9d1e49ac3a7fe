#pragma once

#include <string_view>

#include "base/result.hpp"
#include "policy/glob_match.hpp"

namespace berth::policy {

/// Refuses a component of a pattern that could be read in two ways: a set that is not closed or runs
/// backwards, "**" glued to something, a backslash outside a set (nothing escapes).
[[nodiscard]] Status check_glob_component(std::string_view part);

} // namespace berth::policy
