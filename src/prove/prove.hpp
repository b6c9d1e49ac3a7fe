#pragma once

#include <string>

#include "core/backend.hpp"
#include "prove/receipt.hpp"

namespace berth::prove {

struct Wish {
    std::string sandbox; ///< for the receipt
    std::uint64_t generation = 1;
    std::string data; ///< a private directory of ours
};

/// Tries the policy of a running instance out, from inside: as its own user, and as root where the backend
/// can. The prober comes as a descriptor where that is possible, else it lies in the sandbox while it runs. A
/// policy that does not hold is a receipt that says so; an error means that nothing could be tried.
[[nodiscard]] Task<Result<Receipt>> prove(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                          Wish wish);

} // namespace berth::prove
