#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

struct StreamOptions {
    std::uint64_t from = 0;          ///< of the exec's log
    std::optional<SteadyTime> until; ///< when the stream ends, whatever the process does
    bool in_charge = false;          ///< of the process's deadline and of recording its end
};

/// A process's events to the client until the process ends, its sandbox does, or the client goes. The
/// stream has begun already.
Task<void> stream_process(Sandboxes& sandboxes, EnvdCall& call, std::shared_ptr<Process> process,
                          StreamOptions options);

/// In charge of a process nobody streams.
Task<void> mind_process(Sandboxes& sandboxes, EntryPtr entry, std::shared_ptr<Process> process);

} // namespace berth::e2b
