#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/sandbox_spec.hpp"
#include "policy/bind.hpp"
#include "protocol/codex/intent.hpp"
#include "server/codex/ceiling.hpp"

namespace berth::codex {

/// This executor's own places.
struct Places {
    std::string tmpdir; ///< TMPDIR of the executor, never of a command; may be empty
    std::string state;  ///< berth's own state: nobody's workspace
    std::string token;  ///< the file with what clients must know; may be empty
};

/// An intent bound to this machine: the one decision that processes and fs/* are held to.
struct Bound {
    bool confined = true; ///< false: our own rights, by the operator's word
    policy::Policy policy;
    std::vector<Mount> mounts;      ///< shallow to deep
    std::vector<std::string> notes; ///< what was skipped, and what is less than was asked for

    /// What may be done with an absolute, resolved path.
    [[nodiscard]] policy::Access decide(std::string_view path) const;
    /// Whose rights a confined operation has there, as the mount a process sees has them: the owner of
    /// the deepest mount it lies in. Nothing: a stranger's.
    [[nodiscard]] const Mount* mount_of(std::string_view path) const;

    using Ids = std::pair<std::uint32_t, std::uint32_t>; ///< user and group
    [[nodiscard]] Ids rights_at(std::string_view path) const;

    /// Of whoever carries out a file operation now, where it is not we ourselves.
    std::optional<Ids> acting;
    std::map<std::string, Ids> owners; ///< of the mounts, by target
    /// Of whoever waits for that operation: what takes long looks here whether anybody still does.
    std::stop_token left;

    policy::BoundFiles files;
    policy::BoundFiles files_unprotected; ///< the same without protected names
    std::vector<std::string> temporary;   ///< where names are not protected
};

/// Binds an intent, or the absence of one. `cwd` is the directory of the command; a file operation has
/// none. Invalid: it has no meaning here; Unsupported: it cannot be held; Denied: it is beyond the ceiling.
[[nodiscard]] Result<Bound> bind_intent(const std::optional<Intent>& intent, const std::string& cwd,
                                        const Ceiling& ceiling, const Places& places);

/// What a file operation without an intent may do.
[[nodiscard]] Result<Bound> bind_discovery(const Ceiling& ceiling, const Places& places);

} // namespace berth::codex
