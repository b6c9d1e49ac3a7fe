#include "server/e2b/samples.hpp"

#include <algorithm>

namespace berth::e2b {

namespace {

std::uint32_t counted(const std::optional<Bytes>& bytes, unsigned shift)
{
    return bytes ? static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes->count >> shift, UINT32_MAX)) : 0;
}

} // namespace

void Samples::add(WallTime time, SteadyTime steady, std::optional<std::chrono::microseconds> cpu,
                  const Measured& measured)
{
    if (measured.disk_total) disk_total_ = measured.disk_total;
    One one{.memory_kb = counted(measured.memory, 10),
            .cache_kb = counted(measured.cache, 10),
            .disk_mb = counted(measured.disk, 20),
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
