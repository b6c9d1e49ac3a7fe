#pragma once

#include "server/codex/binding.hpp"

namespace berth::codex {

/// Binds the entries of an intent that has some.
[[nodiscard]] Result<Bound> bind_managed(const Intent& intent, const std::string& cwd, const Ceiling& ceiling,
                                         const Places& places);

} // namespace berth::codex
