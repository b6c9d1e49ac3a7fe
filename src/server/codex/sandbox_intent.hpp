#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/codex/intent.hpp"
#include "server/codex/sandbox_look.hpp"

namespace berth::codex {

/// An intent on top of a sandbox: what a call is held to beside the sandbox's own policy.
struct Narrowed {
    std::optional<policy::Policy> policy; ///< nothing: the sandbox's own says all of it
    bool reads_all = true;                ///< it takes nothing away from reading
    /// What does not exist, must not be made, and is an empty directory while a command runs: the kernel
    /// needs something to hold.
    std::vector<std::string> held;
    std::vector<std::string> notes; ///< what was skipped, and what is less than was asked for

    enum class Touch { Read, Write };
    /// What is told of a path before anything is tried: an error where the rules leave nothing of it.
    [[nodiscard]] Status check_name(const std::string& path, Touch touch) const;
    [[nodiscard]] bool is_held(std::string_view path) const;
};

/// `cwd` is the directory of the command; a file operation has none. Unsupported: the backend cannot hold it,
/// or there is no meaning in it here; what would be more than the sandbox itself has is less then.
[[nodiscard]] Task<Result<Narrowed>> narrow_to(Around around, std::optional<Intent> intent, std::string cwd);

} // namespace berth::codex
