#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/local/holdings.hpp"
#include "core/sandbox_spec.hpp"
#include "sys/cgroup.hpp"

namespace berth::local {

/// The control groups of a one-shot: made before the launch, entered at birth, gone with us.
class LimitGroups {
public:
    /// Looks at the machine only when the policy asks for something groups hold, or when a run that
    /// had groups was killed: its groups are removed then.
    [[nodiscard]] static Result<LimitGroups> open(const SandboxSpec& spec, const StateDir& state);

    LimitGroups(LimitGroups&&) noexcept = default;
    LimitGroups& operator=(LimitGroups&&) = delete;
    ~LimitGroups() { remove(); }

    [[nodiscard]] LimitAvailability availability() const;

    /// Makes the group with the limits that can be held; does nothing when there are none.
    [[nodiscard]] Status make(const SandboxSpec& spec);

    [[nodiscard]] std::vector<int> v1_tasks() const;
    [[nodiscard]] int v2_directory() const;

    /// The limits that killed or refused something, in words: "memory limit 64 MiB".
    [[nodiscard]] std::vector<std::string> struck() const;

    void remove();

private:
    LimitGroups() = default;
    [[nodiscard]] Status record(const std::string& id);

    std::optional<sys::CgroupTree> tree_;
    std::optional<sys::SandboxGroup> group_;
    sys::GroupLimits limits_;
    int records_ = -1; ///< <state>/limited; borrowed from the StateDir
    UniqueFd record_;  ///< a locked file there, for as long as there are groups of ours
    std::string name_;
};

/// What dead makers left: groups are killed and removed. Says which.
[[nodiscard]] std::vector<std::string> sweep_groups(const StateDir& state);

/// What control groups can hold here, as the doctor and a refusal tell it.
[[nodiscard]] LimitAvailability availability_of(const sys::CgroupTree& tree);

} // namespace berth::local
