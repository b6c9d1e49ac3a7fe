#pragma once

#include "base/json_reader.hpp"
#include "policy/policy.hpp"

/// The parts of a document that have a syntax of their own. Each adds to or replaces what the policy
/// has from its preset, and refuses by the place of what is wrong.
namespace berth::policy {

[[nodiscard]] Status read_files(const json::Reader& at, Policy& policy);
[[nodiscard]] Status read_protect(const json::Reader& at, Policy& policy);
[[nodiscard]] Status read_network(const json::Reader& at, Policy& policy);
[[nodiscard]] Status read_limits(const json::Reader& at, Policy& policy);

/// Refuses rules that exclude each other: a write rule on a protected name, protected names where
/// nothing is writable. Names that only the preset protects fall away in that last case.
[[nodiscard]] Status check_contradictions(const json::Reader& document, Policy& policy);

/// The word a limit takes to lift the preset's.
inline constexpr std::string_view kUnlimited = "unlimited";

} // namespace berth::policy
