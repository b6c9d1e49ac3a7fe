#pragma once

#include <optional>
#include <string>

#include "core/exo_hash.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::exo {

/// The part of a spec that exo knows, with `image` as exo names it. Nothing when exo could not have asked
/// for such a sandbox: a mount that is a private copy, or a list of what the network may reach.
[[nodiscard]] std::optional<Spec> spec_of(const SandboxSpec& spec, const std::string& image);

} // namespace berth::exo
