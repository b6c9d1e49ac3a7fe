#pragma once

#include "base/result.hpp"

namespace berth::image {

/// Refuses a directory that cannot be the root of a sandbox: nothing executable in bin or usr/bin. Links
/// are followed as they will be inside, never out of it. `what` names it in the error.
[[nodiscard]] Status check_root(int root, const std::string& what);

} // namespace berth::image
