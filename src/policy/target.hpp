#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.hpp"

/// The text of file rules: how a target is written, checked and taken apart.
namespace berth::policy {

inline constexpr std::size_t kMaxRules = 4096;
/// Each pattern is compared with every path there is, here and by the executor.
inline constexpr std::size_t kMaxPatterns = 256;
inline constexpr std::size_t kMaxPath = 4096;
inline constexpr std::size_t kMaxName = 255;

/// A target as a document writes it, in one canonical form, so that equal text is equal meaning:
/// "/" is ":root", ":root/etc" is "/etc", "/**/x" is "**/x".
[[nodiscard]] Result<Target> parse_target(std::string_view text);

/// Refuses a target that the parser would not have made, for policies that are built in code.
[[nodiscard]] Status check_target(const Target& target);

/// Refuses more rules, or more patterns among them, than anybody should have to look at.
[[nodiscard]] Status check_count(const std::vector<FileRule>& rules);

/// A protected name: one plain component.
[[nodiscard]] Status check_name(std::string_view name);

/// Refuses control characters (C0, DEL, C1), NUL among them.
[[nodiscard]] Status check_printable(std::string_view text);

/// Whether the target is a set of names rather than one place.
[[nodiscard]] bool is_pattern(const Target& target);
[[nodiscard]] bool has_wildcard(std::string_view text);

/// `path` as a pattern that matches only itself.
[[nodiscard]] std::string escape_pattern(std::string_view path);

/// The directory every match of an absolute pattern lies in: "/a/b" for "/a/b/*.c". A view of it.
[[nodiscard]] std::string_view literal_prefix(std::string_view pattern);

/// The non-empty components of a path or pattern.
[[nodiscard]] std::vector<std::string_view> components(std::string_view path);

/// Whether `path` is `place` or lies below it; both absolute and normalised.
[[nodiscard]] bool at_or_below(std::string_view path, std::string_view place);

} // namespace berth::policy
