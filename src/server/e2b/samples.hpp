#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "core/measures.hpp"

namespace berth::e2b {

/// What a sandbox has used during the last hour. Thousands have one: a sample is 20 bytes, and what is the
/// same for all of them is not in it.
class Samples {
public:
    static constexpr std::size_t kMost = 720; ///< one every five seconds

    struct One {
        std::uint32_t memory_kb = 0;
        std::uint32_t cache_kb = 0;
        std::uint32_t disk_mb = 0;
        std::uint32_t seconds = 0; ///< since 1970
        float cpu_percent = 0;
    };

    /// What is not known is 0. `cpu`: used since its beginning.
    void add(WallTime time, SteadyTime steady, std::optional<std::chrono::microseconds> cpu,
             const Measured& measured);
    /// Of the file system, when it was looked at last.
    [[nodiscard]] std::optional<Bytes> disk_total() const noexcept { return disk_total_; }

    [[nodiscard]] bool empty() const noexcept { return ring_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return ring_.size(); }
    /// From the oldest on.
    [[nodiscard]] const One& at(std::size_t i) const noexcept { return ring_[(oldest_ + i) % ring_.size()]; }
    [[nodiscard]] const One& newest() const noexcept { return at(ring_.size() - 1); }

private:
    std::vector<One> ring_;
    std::size_t oldest_ = 0;
    std::optional<std::chrono::microseconds> cpu_; ///< of the newest, and when that was
    SteadyTime time_{};
    std::optional<Bytes> disk_total_;
};

static_assert(sizeof(Samples::One) == 20);

} // namespace berth::e2b
