#pragma once

#include <string>
#include <vector>

#include "backend/local/plan.hpp"
#include "sys/launch.hpp"
#include "sys/spawner.hpp"

namespace berth::local {

/// What the first process of a sandbox starts with. Descriptors are borrowed.
struct Entry {
    int program = -1; ///< the keeper's image
    std::vector<std::string> argv;
    std::vector<std::string> env;
    int in = -1;
    int out = -1;
    int err = -1;
    int socket = -1;       ///< becomes descriptor 3: towards the launcher, or where the keeper listens
    int cgroup = -1;       ///< directory of the v2 group to be born in
    std::vector<int> more; ///< from descriptor 4 on
};

/// The whole launch as a list of steps, in the order of specs/local-isolation.md §2.
[[nodiscard]] Result<sys::StepList> launch_steps(const Plan& plan, const Entry& entry, int self_pidfd);

/// Carries it out. An error names the step that failed and, where one is known, the remedy.
/// By the spawner where there is one (a kept sandbox of a large process), else by this process itself.
[[nodiscard]] Result<sys::Launched> launch(const Plan& plan, const Entry& entry,
                                           sys::Spawner* spawner = nullptr);

} // namespace berth::local
