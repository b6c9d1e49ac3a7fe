#pragma once

#include <chrono>

namespace berth {

using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// Where time comes from, so that a test can own it.
class Clock {
public:
    virtual ~Clock() = default;
    [[nodiscard]] virtual WallTime now() const = 0;
    [[nodiscard]] virtual SteadyTime steady() const = 0;
};

/// The machine's own clock.
[[nodiscard]] const Clock& system_clock() noexcept;

} // namespace berth
