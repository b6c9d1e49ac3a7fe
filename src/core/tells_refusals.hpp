#pragma once

#include <string>

#include "core/backend.hpp"

namespace berth {

/// A backend that counts what deny patterns keep from a command, and can tell. It is evidence: false means
/// that nobody has seen anything, not that nothing was tried.
class TellsRefusals {
public:
    virtual ~TellsRefusals() = default;
    virtual Task<bool> exec_refused(SandboxHandle sandbox, std::string exec) = 0;
};

} // namespace berth
