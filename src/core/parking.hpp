#pragma once

#include <optional>

#include "core/backend.hpp"

namespace berth {

/// What a backend can do beside the rest whose instances can be made before anybody asks for them.
class Parking {
public:
    virtual ~Parking() = default;

    /// Makes an instance that is nobody's yet. create() of the same id makes it that sandbox's own where spec
    /// and snapshot fit; where they do not it is removed, and one is made as always. destroy() removes it.
    /// No scan() finds it. It is this process's: another one can neither use nor remove it, until we are
    /// gone.
    virtual Task<Status> park(CreateRequest request) = 0;
    /// Removes what processes parked that are gone; collect() does it, too.
    virtual Task<Status> clear_parked() = 0;
};

/// A spec without all that an instance can be given afterwards: who it is, its environment, its limits of
/// memory and processors. An instance that was made for one spec can become that of any other of the same
/// shape. Nothing: none can be made ahead, because it shows something of the host.
[[nodiscard]] std::optional<SandboxSpec> shape_of(const SandboxSpec& spec);

} // namespace berth
