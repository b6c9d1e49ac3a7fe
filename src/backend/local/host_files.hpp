#pragma once

#include <string>
#include <vector>

#include "backend/local/layers.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::sys {
class SandboxFiles;
}

namespace berth::local {

// /etc/hosts and /etc/hostname of a root of ours. The skeleton's say "sandbox"; one that is called otherwise
// must find itself by its own name, and not by that of what it was forked or restored from.

struct HostFile {
    std::string path; ///< below the root, without a slash in front
    std::string text;
};

/// What a new upper must hold of them; nothing: what shows through from `stack` says it already, or somebody
/// inside has put lines of his own there, which are his.
[[nodiscard]] std::vector<HostFile> host_files(const StateDir& state, const Stack& stack,
                                               const SandboxSpec& spec);

/// Copies of its own for one that stands already and is to get its name later; false: they are not ours.
[[nodiscard]] Result<bool> own_host_files(const sys::SandboxFiles& files, const SandboxSpec& spec);
/// The name, into such copies: what is waited for. Nobody has used it yet.
[[nodiscard]] Status rename_host_files(const sys::SandboxFiles& files, const SandboxSpec& spec);

} // namespace berth::local
