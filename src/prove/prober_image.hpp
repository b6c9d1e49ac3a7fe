#pragma once

#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::prove {

/// The prober's program, and the same as a memory file at its beginning that can be executed.
[[nodiscard]] std::string_view prober_bytes();
[[nodiscard]] Result<UniqueFd> make_prober_image();

} // namespace berth::prove
