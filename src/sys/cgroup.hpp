#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sys/cgroup_group.hpp"
#include "sys/cgroup_kept.hpp"
#include "sys/cgroup_layout.hpp"
#include "sys/cgroup_maker.hpp"
#include "sys/cgroup_v2_base.hpp"

namespace berth::sys {

struct CgroupOptions {
    std::string parent = "berth"; ///< the group that holds all of ours, below our own
    MoveSelf move_self = MoveSelf::IfNeeded;
};

/// One thing groups can do here, or why not.
struct Facility {
    enum class Version { None, V1, V2 } version = Version::None;
    std::string where; ///< the group below which ours are made
    Lack lack;         ///< when None
    [[nodiscard]] bool available() const noexcept { return version != Version::None; }
};
[[nodiscard]] std::string_view to_string(Facility::Version version) noexcept;

/// Our part of the control groups of this machine: decided per controller, since in hybrid layouts
/// v2 exists with next to no controllers while v1 has them all.
///
/// A group is named after its maker, `berth-<pid>-<start time>-<pid namespace>-…`, so that what a
/// killed process left is recognised by anybody, and `berth-keep-<sandbox>` when it is meant to stay.
class CgroupTree {
public:
    /// Looks at this process and this machine. Whatever is missing is a Facility that says so.
    [[nodiscard]] static CgroupTree open(const CgroupOptions& options = {});
    [[nodiscard]] static CgroupTree open(const CgroupLayout& layout, const CgroupOptions& options);

    [[nodiscard]] const Facility& of(Controller controller) const noexcept
    {
        return controllers_[index(controller)];
    }
    /// A v2 leaf: birth by CLONE_INTO_CGROUP, kill of the whole tree in one write, freeze.
    [[nodiscard]] const Facility& leaf() const noexcept { return leaf_; }
    /// Whether make() can make anything at all.
    [[nodiscard]] bool usable() const noexcept;
    /// Unsupported, naming every limit that cannot be held, the reason and the remedy.
    [[nodiscard]] Status admit(ControllerSet needed) const;

    /// Whether a group has a v2 leaf beside its v1 hierarchies. It costs its making and removing, and
    /// serves to kill and freeze: a pid namespace that ends with its init needs neither.
    enum class Leaf { Always, IfItHoldsALimit };

    /// A group for something that ends with this process: killed and removed when it is destroyed,
    /// or by anybody's sweep() once this process is dead.
    [[nodiscard]] Result<SandboxGroup> make(const std::string& name, const GroupLimits& limits) const;
    /// The same without limits yet, in the hierarchies of these controllers.
    [[nodiscard]] Result<SandboxGroup> make(const std::string& name, ControllerSet controllers,
                                            Leaf leaf) const;

    [[nodiscard]] Result<KeptGroup> make_kept(const std::string& sandbox, const GroupLimits& limits) const;
    /// The same for a group that is there, where nothing has run yet.
    [[nodiscard]] Result<KeptGroup> widen_kept(const std::string& sandbox, const GroupPlaces& before,
                                               const GroupLimits& limits) const;
    /// Where make_kept of *this process* puts it; another process reads its record instead.
    [[nodiscard]] GroupPlaces kept_places(const std::string& sandbox, const GroupLimits& limits) const;

    using Claimed = std::function<bool(std::string_view group)>;
    /// Kills and removes the groups of makers that are dead, except those `claimed`; says which.
    /// Groups that are not ours, kept ones, and those of another pid namespace are left alone.
    [[nodiscard]] std::vector<std::string> sweep(const Claimed& claimed = {}) const;

    /// Removes the empty groups that hold ours. Not while others work below them.
    void remove_parents() const;

private:
    [[nodiscard]] GroupPlaces parents(ControllerSet needed, Leaf leaf = Leaf::Always) const;
    [[nodiscard]] Status prepare(const GroupPlaces& parents) const;
    [[nodiscard]] std::vector<std::string> all_parents(const std::optional<OwnGroup>& own) const;

    CgroupOptions options_;
    CgroupLayout layout_;
    Maker maker_;
    V2Base base_;
    Facility leaf_;
    std::array<Facility, kControllers.size()> controllers_;
};

} // namespace berth::sys
