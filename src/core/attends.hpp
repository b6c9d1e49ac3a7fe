#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides whose commands can wait for their reader: what he has not read when their log is
/// full is not lost, as with a pipe. Whoever leaves does not hold them up. Found by dynamic_cast.
class Attends {
public:
    virtual ~Attends() = default;

    /// For who has just started it and reads all of it from the beginning with this backend.
    [[nodiscard]] virtual Task<void> attend(SandboxHandle sandbox, std::string exec) = 0;
};

/// Where the backend can.
[[nodiscard]] inline Task<void> attend(Backend& backend, SandboxHandle sandbox, std::string exec)
{
    if (auto* const able = dynamic_cast<Attends*>(&backend))
        co_await able->attend(std::move(sandbox), std::move(exec));
}

} // namespace berth
