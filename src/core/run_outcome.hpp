#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/exit_status.hpp"

namespace berth {

/// How a run ended, and what a person should be told beside it.
struct RunOutcome {
    ExitStatus status;
    bool timed_out = false;
    bool by_wall_time = false;       ///< by the policy's limit, not by the exec's own timeout
    std::vector<std::string> struck; ///< limits that struck: "killed: memory limit 64 MiB"
    std::uint64_t dropped = 0;       ///< bytes of output beyond the log limit
    std::vector<std::string> notes;  ///< fallbacks: what is weaker here than elsewhere
    int unwritten = 0; ///< errno of output that could not be passed on; a reader that left is none
};

} // namespace berth
