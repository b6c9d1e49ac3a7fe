#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides that knows whom the commands of its sandboxes run as; found by dynamic_cast.
class TellsUser {
public:
    virtual ~TellsUser() = default;
    /// "NAME, uid N" of a command that names nobody. Of a running instance.
    virtual Task<Result<std::string>> runs_as(SandboxHandle sandbox) = 0;
};

} // namespace berth
