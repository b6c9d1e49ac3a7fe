#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace berth::codex {

/// As much of a file ".git" as git itself reads.
inline constexpr Bytes kGitFile = 1_MiB;

/// The directories that a worktree's file ".git" may mean: git takes what it names to the letter, Codex
/// without the blanks around it. None: it is no such file.
[[nodiscard]] std::vector<std::string> named_git_directories(std::string_view text);

} // namespace berth::codex
