#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/bytes.hpp"

/// What a person is told when a limit struck: what it did, and which it was.
namespace berth::struck {

[[nodiscard]] std::string by_memory(Bytes limit); ///< "killed: memory limit 64 MiB"
[[nodiscard]] std::string by_wall_time(std::chrono::nanoseconds limit);
[[nodiscard]] std::string by_processes(std::uint64_t limit); ///< "refused: process limit 30"
[[nodiscard]] std::string by_disk(Bytes limit);              ///< "full: disk limit 8 MiB"
[[nodiscard]] std::string by_cpus(double limit, std::chrono::microseconds waited);

/// Less is the usual breathing of a limited group and nothing to talk about.
inline constexpr std::chrono::milliseconds kWorthTelling{100};

} // namespace berth::struck
