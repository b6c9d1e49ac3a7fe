#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

/// The control files of a group that v1 and v2 share, and the waiting around them.
namespace berth::sys {

using Patience = std::chrono::milliseconds;

/// Calls `done` with growing pauses (100 µs to 20 ms) until it is true or the time is up.
template <class F> [[nodiscard]] bool wait_until(Patience patience, F done);

/// The number after `key` in lines like "populated 1".
[[nodiscard]] std::optional<std::uint64_t> keyed_value(std::string_view text, std::string_view key);

/// Waits, without polling, until cgroup.events of a v2 group shows `key` as `value`.
[[nodiscard]] Result<bool> await_event(int group, std::string_view key, std::uint64_t value,
                                       Patience patience);

/// Those in this group itself, not below it, that our pid namespace shows.
[[nodiscard]] Result<std::vector<pid_t>> processes_in(const std::string& group);

/// The groups directly below.
[[nodiscard]] std::vector<std::string> subgroups(const std::string& group);

/// SIGKILL to everything in the group and below it, each by pidfd. Says how many it met.
[[nodiscard]] Result<std::size_t> kill_each(const std::string& group);

/// Removes the group and those below it. A group stays busy for a moment after its last process
/// has died, so this waits, with pauses, up to `patience`. Already gone is success.
[[nodiscard]] Status remove_group(const std::string& group, Patience patience);

/// A new group of v1 takes nobody in before it has its processors and memory nodes, if its hierarchy
/// has the cpuset controller too; gives it those of the group above.
void inherit_cpuset(const std::string& group);

/// True when this process may change this file, or make groups in this directory.
[[nodiscard]] bool may_write(const std::string& path) noexcept;

void pause_for(std::chrono::microseconds time) noexcept;

template <class F> bool wait_until(Patience patience, F done)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::chrono::microseconds pause(100);
    while (!done()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        pause_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(20'000));
    }
    return true;
}

} // namespace berth::sys
