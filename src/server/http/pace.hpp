#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/clock.hpp"

namespace berth::http {

/// How long a client may take over a body. A piece has some minutes; a client that always sends one byte
/// just in time would hold its request for ever, so all the waiting together has as much, and a second more
/// for each kilobyte that came. Only waiting counts: what we do with the bytes is not the client's time.
class Pace {
public:
    static constexpr std::chrono::seconds kPatience{300};
    static constexpr std::size_t kSlowest = 1024; ///< bytes a second

    /// Until when the next piece must have come.
    [[nodiscard]] SteadyTime until(SteadyTime now) const noexcept
    {
        if (free_) return now + kPatience;
        const auto earned = std::chrono::seconds(static_cast<std::int64_t>(bytes_ / kSlowest));
        const auto left = kPatience + earned - waited_;
        return now + std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), kPatience);
    }
    void came(std::size_t bytes, std::chrono::nanoseconds waited) noexcept
    {
        bytes_ += bytes;
        waited_ += waited;
    }
    /// A body that is a conversation: no piece of it is late before its time.
    void free() noexcept { free_ = true; }

private:
    std::size_t bytes_ = 0;
    std::chrono::nanoseconds waited_{0};
    bool free_ = false;
};

} // namespace berth::http
