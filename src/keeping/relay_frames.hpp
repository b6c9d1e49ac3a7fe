#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/exec_spec.hpp"
#include "keeper/wire.hpp"

/// What is said to the relay beside a command, as bytes of its input.
namespace berth::keeping {

[[nodiscard]] std::string relay_frame(keeper::RelayKind kind, std::uint64_t offset, std::string_view bytes);

/// The body of the first frame: the command itself. `env` has "NAME=value".
[[nodiscard]] Result<std::string> relay_begin(const ExecSpec& spec, const std::string& cwd,
                                              const std::vector<std::string>& env);

} // namespace berth::keeping
