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

} // namespace berth::docker
