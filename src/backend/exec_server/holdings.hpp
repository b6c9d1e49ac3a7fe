#pragma once

#include "core/sandbox_spec.hpp"
#include "policy/demand.hpp"

namespace berth::exec_server {

/// What an exec-server that keeps its word holds. Whether this one does is asked of it before the first
/// sandbox is made.
[[nodiscard]] policy::Holdings hold();

/// Refuses what can never be, before anybody is asked.
[[nodiscard]] Status admit(const SandboxSpec& spec);

} // namespace berth::exec_server
