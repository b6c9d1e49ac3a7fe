#pragma once

#include <optional>

#include "backend/docker/life.hpp"

/// Containers that exo made: found by its labels, and ours from the moment they are adopted.
namespace berth::docker {

/// The newest container with exo's label of this key and exo's hash of this specification, running ones
/// first; started where it is stopped. Nothing: there is none, or exo could not have made what is asked for.
[[nodiscard]] Result<std::optional<SandboxHandle>> adopt_container(const Where& where,
                                                                   const CreateRequest& request);

} // namespace berth::docker
