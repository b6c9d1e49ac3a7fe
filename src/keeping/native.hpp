#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::keeping {

/// What this backend calls an instance, and the name of its directory: the sandbox's id, and from the
/// second generation on the number of it: "sbx_….2". Two generations of one sandbox lie side by side
/// while one replaces the other.
[[nodiscard]] std::string native_name(std::string_view sandbox, std::uint64_t generation);

/// True for exactly the names that native_name() gives: nothing else becomes part of a path.
[[nodiscard]] bool is_native(std::string_view name) noexcept;
/// The same as a refusal that shows the name.
[[nodiscard]] Status check_native(std::string_view name);

/// The id of the sandbox that `native` is an instance of.
[[nodiscard]] std::string_view sandbox_of(std::string_view native) noexcept;

} // namespace berth::keeping
