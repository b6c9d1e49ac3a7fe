#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides whose commands are ended at their time by their keeper, whoever else lives;
/// found by dynamic_cast.
class HoldsTime {
public:
    virtual ~HoldsTime() = default;

    /// Whether its log says that it was ended because its time was over. Its status says if it was in time.
    [[nodiscard]] virtual Task<Result<bool>> overdue(SandboxHandle sandbox, std::string exec) = 0;
};

/// How long after the time of a command somebody else ends it: its keeper comes first, where it can. One of
/// an older program cannot.
[[nodiscard]] std::chrono::milliseconds keepers_turn(Backend& backend);

/// With a code of its own: it did not time out, whoever was about to end it at the last moment.
[[nodiscard]] bool ended_by_itself(const ExitStatus& status);

/// Whether an exec that ended with `status` was ended by its keeper because its time was over. False where
/// nobody knows.
[[nodiscard]] Task<bool> ended_by_time(Backend& backend, SandboxHandle sandbox, std::string exec,
                                       ExitStatus status);

} // namespace berth
