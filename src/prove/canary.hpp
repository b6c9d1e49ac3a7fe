#pragma once

#include <string>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "prove/probe.hpp"

namespace berth::prove {

/// Listeners on this machine's loopback, sockets and files that are certainly there while a proof runs: what
/// a probe cannot reach of them was refused, not absent. Each was reached from outside before. Gone with it.
class Canary {
public:
    /// `data` is a private directory of ours, which no sandbox may see.
    [[nodiscard]] static Result<Canary> put_up(const std::string& data);
    Canary(Canary&&) noexcept = default;
    Canary& operator=(Canary&&) = delete;
    ~Canary();

    [[nodiscard]] const Bait& bait() const noexcept { return bait_; }

private:
    Canary() = default;
    [[nodiscard]] Status make_files(const std::string& data);
    [[nodiscard]] Status listen_all();

    Bait bait_;
    std::vector<std::string> directories_; ///< ours, with what is in them
    std::vector<UniqueFd> listeners_;
    UniqueFd held_; ///< a lock: whoever finds the directories unlocked removes them
    UniqueFd wake_;
    std::jthread answers_;
};

} // namespace berth::prove
