#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/context.hpp"
#include "bench/table.hpp"

namespace berth::bench {

/// One thing that is measured. `run` prepares, measures and cleans up once, and answers the sample:
/// only what it chose to time is in it.
struct Case {
    std::string name;
    std::function<Result<double>()> run;
    Unit unit = Unit::Nanoseconds;
    unsigned every = 1; ///< slow ones run in one of so many rounds
};

/// How the rounds follow each other.
struct Pace {
    unsigned rounds = 200;
    std::chrono::milliseconds pause{0}; ///< between any two operations
};

/// Between operations when traffic is rare: a tight loop hides what waits for the kernel.
constexpr std::chrono::milliseconds kSparsePause{50};

/// Runs every case once in each round, in an order that is shuffled for each round, and the whole
/// of it as often as the options say; warm-up rounds are thrown away. A case that fails is a
/// problem of the table and does not run again.
void measure(Context& context, Table& table, std::vector<Case> cases, const Pace& pace);

/// The references every ratio stands on. As an ordinary user RA and RB have a user namespace too.
inline constexpr std::string_view kR0 = "R0"; ///< clone3(VM|VFORK), exec true, reap
inline constexpr std::string_view kRA = "RA"; ///< R0 with new mnt, pid, ipc, uts, cgroup
inline constexpr std::string_view kRB = "RB"; ///< RA with new net
[[nodiscard]] Result<Case> reference(std::string_view name);

/// What all of them execute.
inline constexpr const char* kTrue = "/usr/bin/true";

} // namespace berth::bench
