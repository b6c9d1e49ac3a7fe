#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::keeping {

/// The keeper's program as a sealed memfd, to be executed by descriptor: it never comes from the
/// file system of a sandbox, and nobody can write to it afterwards.
[[nodiscard]] Result<UniqueFd> make_keeper_image();

/// The same, made once for this process; borrowed.
[[nodiscard]] Result<int> keeper_image();

} // namespace berth::keeping
