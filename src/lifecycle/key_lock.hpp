#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/task.hpp"
#include "base/unique_fd.hpp"

namespace berth {

/// One at a time may work on a sandbox, among all threads of all processes on this machine. Held until it
/// is destroyed; a killed holder has let go. One byte of one file stands for each name, so that nothing
/// is left behind.
class KeyLock {
public:
    /// Waits without holding a thread. Unavailable when the time is over.
    [[nodiscard]] static Task<Result<KeyLock>> take(std::string file, std::string name,
                                                    std::chrono::milliseconds patience);
    /// Nothing when somebody has it.
    [[nodiscard]] static Result<std::optional<KeyLock>> try_take(const std::string& file,
                                                                 const std::string& name);

private:
    explicit KeyLock(UniqueFd fd) : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

} // namespace berth
