#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Where this process sits in the control group hierarchies, read from text alone, so that every
/// layout there is can be a test.
namespace berth::sys {

enum class Controller { Memory, Pids, Cpu, Freezer };
inline constexpr std::array kControllers{Controller::Memory, Controller::Pids, Controller::Cpu,
                                         Controller::Freezer};
constexpr std::size_t index(Controller controller) noexcept { return static_cast<std::size_t>(controller); }
[[nodiscard]] std::string_view to_string(Controller controller) noexcept;

using ControllerSet = std::bitset<kControllers.size()>;

/// The controllers named in a cgroup.controllers or cgroup.subtree_control file. The freezer is no
/// controller of v2, but part of its core.
[[nodiscard]] ControllerSet parse_controllers(std::string_view text);

/// The group we are in, in one hierarchy.
struct OwnGroup {
    std::string mount; ///< where the hierarchy, or the part of it that we see, is mounted
    std::string path;  ///< the group's directory: `mount`, or below it
    bool operator==(const OwnGroup&) const = default;
};

/// The group and those above it that we see, nearest first.
[[nodiscard]] std::vector<std::string> ancestry(const OwnGroup& group);

/// The leaf that a process of ours moves itself into, so that groups beside it get controllers.
inline constexpr std::string_view kSelfGroup = "berth-self";
/// The slice our units lie in, and nothing else.
inline constexpr std::string_view kOwnSlice = "berth.slice";

/// Where groups begin that outlive this process: not in its leaf, and not in a unit of ours, which its
/// supervisor clears of empty groups at each stop, and which takes no successor while groups in it have
/// controllers; beside it, in our slice.
[[nodiscard]] OwnGroup lasting(const OwnGroup& group);

struct CgroupLayout {
    std::optional<OwnGroup> v2;
    std::array<std::optional<OwnGroup>, kControllers.size()> v1;
    std::string why_no_v2; ///< when a v2 mount exists that does not show our group
};

/// From the text of /proc/self/cgroup and /proc/self/mountinfo.
[[nodiscard]] CgroupLayout parse_layout(std::string_view own_groups, std::string_view mounts);

} // namespace berth::sys
