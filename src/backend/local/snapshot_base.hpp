#pragma once

#include <optional>

#include "backend/local/layer_manifest.hpp"
#include "backend/local/pools.hpp"

namespace berth::local {

/// The directories that take the place of the template's below an instance that starts from a snapshot: the
/// root that a root tar holds, or the one that the layers of a later snapshot were written over. Nothing:
/// it stands on its template.
[[nodiscard]] Result<std::optional<RootLayers>> base_of(const StateDir& state, const SandboxSpec& spec,
                                                        const SnapshotSource& from,
                                                        const std::optional<LayerManifest>& manifest,
                                                        const Pools::Progress& progress);

} // namespace berth::local
