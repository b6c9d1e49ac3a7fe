#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sys/step_list.hpp"

namespace berth::local {

// Without privileges in its mount namespace nobody may see what a mount hides, so the kernel refuses an
// ordinary user the clone of a directory without what is mounted in it, and any layer over such a directory.
// What is shown of one is cloned with everything, and what was mounted in it is covered at once: as for root,
// who need not clone it, none of it is shown. It may hold sockets of the host, or names nobody looked for.

struct Submount {
    std::string below; ///< its path from the directory
    bool file = false;
};

/// What is mounted below a directory of the host; not what is mounted in one of those again.
[[nodiscard]] Result<std::vector<Submount>> submounts_of(std::string_view directory);
[[nodiscard]] std::vector<Submount> parse_submounts(std::string_view table, std::string_view directory);

/// An empty one over each, where the directory was attached at `at`, from the working directory.
void cover(sys::StepList& list, const std::vector<Submount>& submounts, const std::string& at);

} // namespace berth::local
