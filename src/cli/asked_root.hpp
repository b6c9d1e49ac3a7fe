#pragma once

#include "cli/app.hpp"
#include "cli/sandbox_options.hpp"

namespace berth::cli {

/// sandbox_spec(), with a template by the name that this machine has for it: an image that was pulled, or a
/// template that was built (lifecycle/begins_with.hpp). It is that one from here on, wherever the name goes.
[[nodiscard]] Result<SandboxSpec> asked_spec(const Common& common, const SandboxOptions& options);

} // namespace berth::cli
