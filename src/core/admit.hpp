#pragma once

#include <string>
#include <vector>

#include "core/sandbox_spec.hpp"
#include "policy/demand.hpp"

namespace berth {

/// The weakest tier that is good enough for a rule: a backend whose sandboxes live with a vendor can only
/// give its word.
[[nodiscard]] policy::Tier accepted_tier(const policy::Holdings& holdings);

/// Refuses a policy that cannot be held; with limits as best effort, moves those that are not into `notes`.
/// So it does with the limits of every preset where the sandbox is not on this machine: they are there to
/// protect it.
[[nodiscard]] Status admit(const SandboxSpec& spec, const policy::Holdings& holdings,
                           std::vector<std::string>& notes);

} // namespace berth
