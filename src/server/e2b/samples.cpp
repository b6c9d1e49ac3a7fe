#include "server/e2b/samples.hpp"

#include <algorithm>

namespace berth::e2b {

void Samples::add(WallTime time, SteadyTime steady, std::optional<std::chrono::microseconds> cpu,
                  std::uint64_t memory)
{
    One one{.memory = memory,
            .seconds = static_cast<std::uint32_t>(
                std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count()),
            .cpu_percent = 0};
    if (!ring_.empty() && cpu && cpu_) {
        const std::chrono::duration<double> wall = steady - time_;
        const std::chrono::duration<double> used = *cpu - *cpu_;
        if (wall.count() > 0) one.cpu_percent = static_cast<float>(100 * used.count() / wall.count());
    }
    cpu_ = cpu;
    time_ = steady;
    if (ring_.size() == kMost) {
        ring_[oldest_] = one;
        oldest_ = (oldest_ + 1) % kMost;
        return;
    }
    // Doubling would end far beyond what is ever used.
    if (ring_.size() == ring_.capacity()) ring_.reserve(std::clamp<std::size_t>(2 * ring_.size(), 16, kMost));
    ring_.push_back(one);
}

} // namespace berth::e2b
