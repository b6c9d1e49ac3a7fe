#pragma once

#include <string>

#include "sys/cgroup_layout.hpp"

namespace berth::sys {

/// Why something cannot be had, and what a person can do about it.
struct Lack {
    std::string reason;
    std::string remedy;
};

/// The v2 group below which ours are made.
struct V2Base {
    std::string path;      ///< empty: none can be used
    ControllerSet enabled; ///< what groups made below it get
    Lack lack;             ///< of the base itself, or of the controllers that are not enabled
};

enum class MoveSelf {
    Never,
    /// A group with processes cannot hand controllers to groups below it. When this process is
    /// the only one in its group it may move into a leaf kSelfGroup next to ours.
    IfNeeded,
};

/// Looks at where lasting groups begin, our own group and those above it, nearest first, and takes the first
/// that can hand all controllers down, else the one that can most; enables them there. Nearest first keeps us
/// inside whatever limits were put on us.
[[nodiscard]] V2Base choose_v2_base(const OwnGroup& own, MoveSelf move);

/// "start berth in a group of its own: systemd-run …", as this user would have to type it.
[[nodiscard]] std::string delegation_remedy();

} // namespace berth::sys
