#pragma once

#include <string>
#include <vector>

#include "backend/local/plan.hpp"
#include "core/exec_spec.hpp"
#include "keeping/places.hpp"

namespace berth::local {

/// The account a command runs as. An ordinary user's sandbox has one id only: asking for another
/// is refused with the remedy.
[[nodiscard]] Result<Account> account_for(const std::string& user, const RootLayers& layers,
                                          const Identity& identity);

/// The same of one that a command or a call names: in an image `user` must be there then.
[[nodiscard]] Result<Account> asked_account(const std::string& user, const RootLayers& layers,
                                            const Identity& identity);

/// NAME=value list of a command: clean, then the image's, then the sandbox's, then its own. Nothing of our
/// own environment is in it.
[[nodiscard]] std::vector<std::string> environment(const SandboxSpec& spec, const ExecSpec& exec,
                                                   const Account& user, const RootLayers& layers);

/// The exec's, else the sandbox's, else the first workspace, else the image's, else the home directory.
[[nodiscard]] std::string working_directory(const SandboxSpec& spec, const ExecSpec& exec,
                                            const Account& user, const RootLayers& layers);

using keeping::candidates;
using keeping::roots_of;

} // namespace berth::local
