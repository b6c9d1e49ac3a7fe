#pragma once

#include <cstddef>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// A network namespace of its own with loopback up and every port open to every user inside.
/// Enters it for a moment: only for a single-threaded process with CAP_SYS_ADMIN.
[[nodiscard]] Result<UniqueFd> make_net_namespace();

/// Ready-made network namespaces, because making one costs as much as all others together. One
/// that was used is never used again; destroying it is left to the kernel.
class NetNamespacePool {
public:
    explicit NetNamespacePool(std::size_t target) : target_(target) {}

    /// Fills up to the target; off the request path.
    [[nodiscard]] Status refill();
    /// One of the pool, or a fresh one when it is empty.
    [[nodiscard]] Result<UniqueFd> take();
    [[nodiscard]] std::size_t ready() const noexcept { return ready_.size(); }

private:
    std::size_t target_;
    std::vector<UniqueFd> ready_;
};

} // namespace berth::sys
