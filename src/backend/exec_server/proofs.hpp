#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "keeping/remote_state.hpp"

namespace berth::exec_server {

/// What was found out about servers, by a key that names the server and the policy, so that nothing is tried
/// twice. What held is also noted on this machine, for an hour: a command line is many short processes.
class Proofs {
public:
    /// Borrowed.
    explicit Proofs(const keeping::RemoteState& state) : state_(state) {}

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
    const keeping::RemoteState& state_;
    std::mutex mutex_;
    std::map<std::string, Status> outcomes_;
    std::set<std::string> under_way_;
};

} // namespace berth::exec_server
