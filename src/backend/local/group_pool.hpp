#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backend/local/holdings.hpp"
#include "backend/local/state_dir.hpp"
#include "sys/cgroup.hpp"

namespace berth::local {

/// Where one-shots get their control groups from. It looks at the machine once, and can hold groups
/// ready: making one costs as much as a tenth of a launch. For one thread.
///
/// While it has made groups, a locked file in the state directory says so: what a killed program
/// leaves is found by it, and removed by the next one.
class GroupPool {
public:
    /// Removes what dead programs left.
    explicit GroupPool(const StateDir& state);
    GroupPool(GroupPool&&) = delete;
    ~GroupPool();

    [[nodiscard]] const sys::CgroupTree& tree();

    /// Killed and removed when it is destroyed.
    [[nodiscard]] Result<sys::SandboxGroup> take(const sys::GroupLimits& limits);

    /// Makes `count` ready of each kind that was ever taken.
    [[nodiscard]] Status refill(std::size_t count);

private:
    [[nodiscard]] Status record();
    [[nodiscard]] Result<sys::SandboxGroup> make(sys::ControllerSet controllers);

    int records_; ///< <state>/limited; borrowed from the StateDir
    std::optional<sys::CgroupTree> tree_;
    std::string name_;
    UniqueFd record_;
    std::uint64_t made_ = 0;
    std::map<unsigned long, std::deque<sys::SandboxGroup>> ready_; ///< by the controllers they have
};

/// What dead makers left: groups are killed and removed. Says which.
[[nodiscard]] std::vector<std::string> sweep_groups(const StateDir& state);

/// What control groups can hold here, as the doctor and a refusal tell it.
[[nodiscard]] LimitAvailability availability_of(const sys::CgroupTree& tree);

} // namespace berth::local
