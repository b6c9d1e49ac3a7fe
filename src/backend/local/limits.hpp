#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/local/group_pool.hpp"
#include "backend/local/pools.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::local {

/// The control groups of a one-shot: made before the launch, entered at birth, gone with us.
class LimitGroups {
public:
    /// Looks at the machine only when the policy asks for something groups hold, or when a program that
    /// had groups was killed: its groups are removed then. `pools` may be null.
    [[nodiscard]] static LimitGroups open(const SandboxSpec& spec, const StateDir& state, Pools* pools);

    [[nodiscard]] LimitAvailability availability() const;

    /// Makes the group with the limits that can be held; does nothing when there are none.
    [[nodiscard]] Status make(const SandboxSpec& spec);

    [[nodiscard]] std::vector<int> v1_tasks() const;
    [[nodiscard]] int v2_directory() const;

    /// The limits that killed or refused something, in words.
    [[nodiscard]] std::vector<std::string> struck() const;

    void remove();

private:
    LimitGroups() = default;

    std::unique_ptr<GroupPool> own_;
    GroupPool* pool_ = nullptr;
    bool wanted_ = false;
    sys::GroupLimits limits_;
    std::optional<sys::SandboxGroup> group_; ///< destroyed before the pool that recorded it
};

} // namespace berth::local
