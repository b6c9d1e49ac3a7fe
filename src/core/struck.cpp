#include "core/struck.hpp"

#include "base/strings.hpp"

namespace berth::struck {

std::string by_memory(Bytes limit) { return fmt::format("killed: memory limit {}", show(limit)); }

std::string by_wall_time(std::chrono::nanoseconds limit)
{
    return fmt::format("killed: wall time limit {}", show(limit));
}

std::string by_processes(std::uint64_t limit) { return fmt::format("refused: process limit {}", limit); }

std::string by_disk(Bytes limit) { return fmt::format("full: disk limit {}", show(limit)); }

std::string by_cpus(double limit, std::chrono::microseconds waited)
{
    const auto rounded = std::chrono::round<std::chrono::milliseconds>(waited);
    return fmt::format("slowed: cpu limit {} (waited {})", limit, show(std::chrono::nanoseconds(rounded)));
}

} // namespace berth::struck
