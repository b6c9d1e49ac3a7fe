#pragma once

#include <chrono>

#include "core/backend.hpp"

namespace berth {

/// The time a sandbox has been paused since this was made: it counts for no timeout.
class PausedTime {
public:
    /// Asks nobody where nothing can be paused, or nothing depends on it.
    static Task<PausedTime> begin(Backend& backend, SandboxHandle sandbox, bool matters);

    struct Look {
        bool paused = false;
        std::chrono::milliseconds more{0}; ///< since the last look
    };
    Task<Look> look(Backend& backend, SandboxHandle sandbox);

private:
    bool matters_ = false;
    std::chrono::milliseconds seen_{0};
};

} // namespace berth
