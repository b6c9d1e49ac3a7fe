#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::image {

/// Checks that a directory can be the root of sandboxes and answers with its real path. It must
/// be absolute, not `/`, hold a program, and neither contain nor lie in one of `own` (the directories
/// of state and cache: a sandbox would see its own layers).
[[nodiscard]] Result<std::string> directory_template(const std::string& path,
                                                     const std::vector<std::string>& own);

} // namespace berth::image
