#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// A network namespace that a process of its own makes while we go on: making one takes the kernel as long as
/// all mounts of a sandbox together. Whoever is to live in it waits for `ready` (StepList::enter_beside).
class NetNamespaceBeside {
public:
    NetNamespaceBeside() = default;
    /// Begins. Needs CAP_SYS_ADMIN; what goes wrong is told to whoever waits.
    [[nodiscard]] static Result<NetNamespaceBeside> begin();
    NetNamespaceBeside(NetNamespaceBeside&& other) noexcept;
    NetNamespaceBeside& operator=(NetNamespaceBeside&& other) noexcept;
    ~NetNamespaceBeside() { settle(); }

    explicit operator bool() const noexcept { return static_cast<bool>(maker_); }
    /// A pidfd: the namespace is that of the maker, and goes with it unless somebody has entered.
    [[nodiscard]] int maker() const noexcept { return maker_.get(); }
    /// Readable when it is made, or has failed: one number of 64 bits, 1 and an errno.
    [[nodiscard]] int ready() const noexcept { return ready_.get(); }

    /// Ends the maker, and waits for that. Not in the middle of its work: its descriptors are ours.
    void settle() noexcept;

private:
    UniqueFd maker_;
    UniqueFd ready_;
    pid_t pid_ = -1;
    void* stack_ = nullptr;
};

/// The maker's half, on a stack of its own in our memory: raw system calls only.
struct NetNamespaceOrder {
    pid_t from = -1;
    int ready = -1;
    std::uint32_t busy = 1; ///< 0 once it holds no descriptor of its own, or is gone; a futex
};
int make_net_namespace_beside(void* order) noexcept;

/// Brings the loopback of the caller's network namespace up; raw calls, a negative errno for an answer.
long raise_loopback() noexcept;

} // namespace berth::sys
