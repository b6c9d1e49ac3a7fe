#pragma once

#include <string>
#include <vector>

#include "core/sandbox_spec.hpp"
#include "policy/demand.hpp"

namespace berth {

/// Refuses a policy that cannot be held; with limits as best effort, moves those that are not into `notes`.
[[nodiscard]] Status admit(const SandboxSpec& spec, const policy::Holdings& holdings,
                           std::vector<std::string>& notes);

} // namespace berth
