#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::scripted {

/// A file without a name below `directory` that is gone with its descriptor.
[[nodiscard]] Result<UniqueFd> nameless_file(int directory);

} // namespace berth::scripted
