#pragma once

#include <string>
#include <vector>

#include "backend/local/state_dir.hpp"

namespace berth::bench {

/// The conditions of a run. A ratio without them is worthless.
struct Machine {
    std::string kernel;
    unsigned cores = 0;
    bool root = false;
    double load_before = 0; ///< of the last minute
    double load_after = 0;
    std::string state_path;
    std::string state_file_system; ///< "ext4", "tmpfs", ...
    std::string cgroup_layout;     ///< "v2", "v1", "hybrid", "none"
    std::vector<std::string> fallbacks;
};

/// Looks at the machine, the load before included.
[[nodiscard]] Machine look_at_machine(const local::StateDir& state);

/// The load of the last minute; 0 where it cannot be read.
[[nodiscard]] double load_now();

/// The type of the file system that holds `path`, by the mount table given.
[[nodiscard]] std::string file_system_of(const std::string& path, const std::string& mountinfo);

} // namespace berth::bench
