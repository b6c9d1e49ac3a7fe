#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::e2b_client {

/// A file without a name below `directory` that is gone with its descriptor.
[[nodiscard]] Result<UniqueFd> nameless_file(int directory);

} // namespace berth::e2b_client
