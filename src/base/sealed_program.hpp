#pragma once

#include <sys/types.h>

#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth {

/// A program in memory, to be executed by its descriptor: nobody can change it any more, and without read
/// permission in `mode` nobody can look into what runs it, from its first moment on.
[[nodiscard]] Result<UniqueFd> seal_program(const char* name, std::string_view bytes, mode_t mode);

} // namespace berth
