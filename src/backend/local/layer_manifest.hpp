#pragma once

#include <string>

#include "backend/local/layers.hpp"
#include "backend/local/plan.hpp"
#include "base/clock.hpp"
#include "core/snapshot.hpp"

namespace berth::local {

/// What a snapshot of kind berth_layer is: a file `manifest` in its directory that names the layers. They
/// themselves stay with the state directory, shared with whoever else stands on them.
struct LayerManifest {
    std::string snapshot; ///< "snap_…"
    std::string sandbox;
    WallTime created{};
    std::string root;     ///< template of the sandbox, in words: only ever compared, it may be gone
    std::string identity; ///< of the template's contents, as RootLayers has it
    Stack stack;
    bool live_copy = false;
    std::uint64_t bytes = 0; ///< copied for it
    bool operator==(const LayerManifest&) const = default;
};

/// First everything on the file system of `layers` (borrowed) is brought to the disk, then the manifest gets
/// its name there. Answers with the text.
[[nodiscard]] Result<std::string> write_manifest(const std::string& directory, const LayerManifest& manifest,
                                                 int layers);

/// NotFound: there is none. It may have been written by anybody: every field is checked, unknown ones
/// are refused. Whether the layers are there is not looked at.
[[nodiscard]] Result<LayerManifest> read_manifest(const std::string& directory);
[[nodiscard]] Result<LayerManifest> parse_manifest(std::string_view text);

/// Refuses a template that is not the one the layers were written over, with the reason.
[[nodiscard]] Status check_template(const LayerManifest& manifest, const Template& root,
                                    const RootLayers& layers);

/// The refusal of a kind of snapshot, naming those there are.
[[nodiscard]] std::unexpected<Error> refuse_kind(std::string_view doing, std::string_view kind,
                                                 const std::vector<std::string>& accepted);

} // namespace berth::local
