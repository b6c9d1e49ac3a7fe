#pragma once

#include <string>
#include <vector>

#include "base/json_reader.hpp"
#include "base/unique_fd.hpp"
#include "core/sandbox_spec.hpp"

/// What a mount shows is found once, when the sandbox is made, and pinned: somebody inside may be able to put
/// a link in its place, or above it, before the next start.
namespace berth::keeping {

/// As a record keeps it.
struct Pin {
    std::string path;   ///< real: no link on the way to it
    std::string device; ///< of a directory; empty: not known, or of another boot, which numbers them anew
    std::string inode;  ///< of a directory; empty: not known
    bool operator==(const Pin&) const = default;
};

/// Held by descriptor: what is looked at is what is shown.
struct MountSource {
    UniqueFd fd; ///< O_PATH
    Pin pin;
    bool file = false;
};

/// What `path` leads to now, links followed once.
[[nodiscard]] Result<MountSource> open_source(const std::string& path);
/// What it led to when it was pinned. Denied: something else is there now. A file may have been replaced by
/// another one, for that is how editors save.
[[nodiscard]] Result<MountSource> open_pinned(const Mount& mount, const Pin& pin);

/// Those of all mounts, in their order.
[[nodiscard]] Result<std::vector<Pin>> pin_mounts(const SandboxSpec& spec);
/// The same spec with each source by its real path.
[[nodiscard]] SandboxSpec at_pins(SandboxSpec spec, const std::vector<Pin>& pins);

[[nodiscard]] json::Array to_json(const std::vector<Pin>& pins);
/// From the record of an instance of `spec`. One from before there were pins may have no link in its paths.
[[nodiscard]] Result<std::vector<Pin>> read_pins(const json::Reader& record, const SandboxSpec& spec,
                                                 bool same_boot);

/// Refuses a mount in another one whose place is not there: it would be made in the host's directory, or fail
/// there. In a private copy it is made.
[[nodiscard]] Status check_points(const SandboxSpec& spec, const std::vector<MountSource>& sources);

/// Whoever reaches the socket of an engine is root of its machine: refuses what shows one. `socket` is that
/// of an engine in use, beside those of the usual places and DOCKER_HOST; may be empty.
[[nodiscard]] Status refuse_engines(const MountSource& source, const std::string& socket);

} // namespace berth::keeping
