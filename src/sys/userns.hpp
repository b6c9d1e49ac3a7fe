#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// `count` ids from `inside` on are shown outside as `outside` and following.
struct IdMapping {
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 1;
};

/// A user namespace with its id maps written, held by descriptor: for setns, and for idmapped
/// mounts. Made by a short-lived holder, because a namespace that a vforking clone makes for itself
/// has nobody left to write its maps.
[[nodiscard]] Result<UniqueFd> make_user_namespace(const std::vector<IdMapping>& uids,
                                                   const std::vector<IdMapping>& gids);

} // namespace berth::sys
