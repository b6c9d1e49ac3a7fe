#pragma once

#include <string>
#include <vector>

#include "backend/docker/instance.hpp"
#include "keeping/account.hpp"

namespace berth::docker {

/// What a command finds around it: clean, then the image's, then the sandbox's, then its own.
[[nodiscard]] std::vector<std::string> environment_of(const Instance& instance, const ExecSpec& exec,
                                                      const keeping::Account& user);
/// Where the commands of this user start, unless they say otherwise.
[[nodiscard]] std::string workdir_of(const Instance& instance, const keeping::Account& user);

/// Whom a command or a call is done as: `asked` by name, which must be in the image then, else whom the
/// sandbox's own user means in it.
[[nodiscard]] Result<keeping::Account> account_of(const Instance& instance, const std::string& asked,
                                                  const keeping::EtcReader& etc);
/// "root, uid 0".
[[nodiscard]] std::string describe(const keeping::Account& account);

} // namespace berth::docker
