#pragma once

#include "server/codex/binding.hpp"

namespace berth::codex {

/// Read-only below every writable root even if no entry says so.
inline constexpr std::string_view kProtectedNames[] = {".git", ".agents", ".codex", ".aws"};

/// Of an intent without any roots: a rule about them would be one about nothing.
[[nodiscard]] Status refuse_rootless(const Intent& intent);

/// Binds the entries of an intent that has some.
[[nodiscard]] Result<Bound> bind_managed(const Intent& intent, const std::string& cwd, const Ceiling& ceiling,
                                         const Places& places);

} // namespace berth::codex
