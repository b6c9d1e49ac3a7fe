#pragma once

#include <string_view>

#include "base/result.hpp"

namespace berth::policy {

/// The character at `at`, which moves past it. A byte that is not UTF-8 is a character of its own,
/// beyond Unicode, so a file name of any bytes has a meaning and "?" never splits a character.
char32_t next_character(std::string_view text, std::size_t& at);

/// Refuses a component of a pattern that could be read in two ways: a set that is not closed or runs
/// backwards, "**" glued to something, a backslash outside a set (nothing escapes).
[[nodiscard]] Status check_glob_component(std::string_view part);

} // namespace berth::policy
