#pragma once

#include <vector>

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides that tells by itself when others stop, remove or pause its instances; found by
/// dynamic_cast. Of the rest one hears when they are looked at.
class TellsChanges {
public:
    virtual ~TellsChanges() = default;
    /// Instances that may have changed since the last call, or since the backend was opened; none at the
    /// deadline. Which they are now inspect() tells. Holds a thread of the pool; for one caller.
    virtual Task<Result<std::vector<SandboxHandle>>> changes(SteadyTime until) = 0;
};

} // namespace berth
