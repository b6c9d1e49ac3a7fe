#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "keeping/remote_state.hpp"

namespace berth::exec_server {

/// What was found out about servers, by a key that names the server and the policy, so that nothing is tried
/// twice within an hour; what did not hold is tried again sooner, since somebody may have mended it. What
/// held is also noted on this machine: a command line is many short processes.
class Proofs {
public:
    /// Borrowed.
    explicit Proofs(const keeping::RemoteState& state, const Clock& clock = system_clock())
        : state_(state), clock_(clock)
    {
    }

    /// Nothing: it must be tried.
    [[nodiscard]] std::optional<Status> known(const std::string& key);
    /// Reads the note. Blocks.
    void recall(const std::string& key);

    /// True for the one who is to try it; everybody else waits until it is known, or asks again.
    [[nodiscard]] bool begin(const std::string& key);
    /// What could not be tried is not judged: the next one tries again.
    void end(const std::string& key, const std::optional<Status>& outcome);
    /// Blocks. A note that cannot be kept costs a trial later.
    void note(const std::string& key) const;

private:
    struct Outcome {
        Status status;
        SteadyTime until;
    };

    const keeping::RemoteState& state_;
    const Clock& clock_;
    std::mutex mutex_;
    std::map<std::string, Outcome> outcomes_;
    std::set<std::string> under_way_;
};

} // namespace berth::exec_server
