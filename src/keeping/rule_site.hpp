#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/sandbox_spec.hpp"
#include "policy/bind.hpp"

namespace berth::keeping {

/// Something of the host, or a volume, that is shown inside.
struct Shown {
    int source = -1;  ///< O_PATH; borrowed
    std::string path; ///< where it lies on the host; may be empty
    std::string target;
    Mount::Mode mode = Mount::Mode::ReadOnly;
    bool file = false;
    bool workspace = false;
};

/// What file rules are applied to: the root of a sandbox as it is before them.
struct RuleSite {
    policy::BoundFiles files;
    std::vector<Shown> shown;
    bool live = false; ///< the root is the host's own
    std::span<const char* const>
        hidden; ///< of a live root: directories that are the sandbox's own all the same
    /// Where a link at the top of the root leads ("/bin" -> "usr/bin"); empty when it is none.
    std::function<std::string(const std::string&)> link;
    std::optional<std::uint32_t> root_id; ///< root inside, where its files have another number outside
    /// Absolute paths inside of what has a protected name and lies below a writable rule.
    std::vector<std::string> protected_paths;
    int state = -1; ///< where placeholders of protected names are recorded; borrowed
};

} // namespace berth::keeping
