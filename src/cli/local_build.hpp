#pragma once

#include <optional>
#include <string>
#include <vector>

#include "berth/berth.hpp"
#include "cli/app.hpp"
#include "cli/dockerfile.hpp"

namespace berth::cli {

/// A template of this machine's own: a Dockerfile, run step by step in a sandbox, and a snapshot of what has
/// become of it. Each step that changes files is a snapshot, too, found again by all that led to it: a build
/// that begins like another begins where that one went its own way.
struct LocalBuildWish {
    Dockerfile file;
    std::string name;
    std::string context;
    bool force = false; ///< nothing that was made before is used again
    std::string token;  ///< says of its sandbox whose it is, until it is a template
};
[[nodiscard]] Result<SnapshotRecord> build_here(Berth& berth, const Common& common,
                                                const LocalBuildWish& wish);

/// Of a build that was killed.
[[nodiscard]] Status clear_build(Berth& berth, const std::string& token);

/// The note of a template's snapshot.
[[nodiscard]] std::string template_note(std::string_view name);
/// The name of a template of this machine's own; nothing: the snapshot is none.
[[nodiscard]] std::optional<std::string> template_name(const SnapshotRecord& snapshot);
/// The newest of that name.
[[nodiscard]] Result<std::optional<SnapshotRecord>> find_template(Store& store, const std::string& name);
/// One of each name, the newest first.
[[nodiscard]] Result<std::vector<SnapshotRecord>> list_templates(Store& store);

/// Letters, digits, '.', '_' and '-', and no snapshot's id.
[[nodiscard]] Status check_template_name(std::string_view name);

} // namespace berth::cli
