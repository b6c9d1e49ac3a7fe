#pragma once

#include <string>
#include <vector>

#include "core/sandbox_spec.hpp"
#include "keeping/account.hpp"
#include "policy/bind.hpp"

namespace berth::keeping {

/// The places where a command may lie: its own, or without a slash those that PATH names, else the usual
/// ones.
[[nodiscard]] std::vector<std::string> candidates(const std::string& command,
                                                  const std::vector<std::string>& env);

/// Where the symbols of a policy point in a sandbox.
[[nodiscard]] policy::Roots roots_of(const SandboxSpec& spec, const Account& user);

/// Where a sandbox's work lies: as core/tells_workspace.hpp has it.
[[nodiscard]] std::string workspace_of(const SandboxSpec& spec, const std::string& image_workdir,
                                       const Account& user);

} // namespace berth::keeping
