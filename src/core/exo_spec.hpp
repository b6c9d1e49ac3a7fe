#pragma once

#include <optional>
#include <string>

#include "core/exo_hash.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::exo {

/// The part of a spec that exo knows, with `image` as exo names it. Nothing when exo could not have asked
/// for such a sandbox: a mount that is a private copy, or a list of what the network may reach. Mounts by
/// their real paths, as its container backend has them.
[[nodiscard]] std::optional<Spec> spec_of(const SandboxSpec& spec, const std::string& image);

/// The hash of a request as it was given, which is what exo's cloud backends take: no image where none was
/// named. Empty when exo could not have asked for it; a root in a file or directory is nothing it knows.
[[nodiscard]] std::string hash_as_given(const SandboxSpec& spec);

} // namespace berth::exo
