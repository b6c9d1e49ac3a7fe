#pragma once

#include "core/sandbox_spec.hpp"
#include "policy/demand.hpp"

namespace berth::e2b_client {

/// What the cloud says it holds: the tier is Vendor, and nobody outside of it can check.
[[nodiscard]] policy::Holdings hold();

/// Refuses before any call, naming each, what a sandbox of E2B's cannot be: with directories of this machine,
/// with rules the cloud does not know, from something it does not have.
[[nodiscard]] Status admit(const SandboxSpec& spec);

} // namespace berth::e2b_client
