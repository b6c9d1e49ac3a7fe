#pragma once

#include <sys/types.h>

#include "backend/local/state_dir.hpp"
#include "base/unique_fd.hpp"

namespace berth::local {

/// A companion process that outlives us by a moment: when we end, however we end, it removes the placeholders
/// of protected names that our sandboxes held in directories of the host. Without it they would stay until
/// somebody next uses berth.
class Sweeper {
public:
    /// Forks it. Call before the process has threads.
    [[nodiscard]] static Result<Sweeper> start(const StateDir& state);
    Sweeper(Sweeper&& other) noexcept = default;
    Sweeper& operator=(Sweeper&&) noexcept = delete;
    /// Nothing is held any more: it ends without looking.
    ~Sweeper();

private:
    explicit Sweeper(pid_t pid, UniqueFd alive) noexcept : pid_(pid), alive_(std::move(alive)) {}
    pid_t pid_ = -1;
    UniqueFd alive_; ///< its other end tells the companion that we live
};

} // namespace berth::local
