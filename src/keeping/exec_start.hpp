#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "core/exec_spec.hpp"
#include "keeper/wire.hpp"

namespace berth::keeping {

/// The keeper's number of an exec: the random part of its id.
[[nodiscard]] Result<std::uint64_t> keeper_id(std::string_view exec);

/// A failed start as an error with the code and words a person needs.
[[nodiscard]] Error start_error(keeper::Step step, int error, const ExecSpec& spec, const std::string& cwd);

} // namespace berth::keeping
