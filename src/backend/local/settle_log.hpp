#pragma once

#include <string>

#include "backend/local/shared.hpp"
#include "backend/local/state_dir.hpp"
#include "keeping/exec_logs.hpp"

namespace berth::local {

/// One log, in whatever state the instance is: an exec that no keeper knows gets its end, with an unknown
/// status. Then it is on the disk.
[[nodiscard]] Status settle_log(const StateDir& state, const std::string& native, const std::string& exec);

} // namespace berth::local
