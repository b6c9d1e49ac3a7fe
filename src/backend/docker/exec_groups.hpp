#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/policy.hpp"
#include "sys/cgroup.hpp"

namespace berth::docker {

/// Groups of ours below a container's own, one for each exec, so that what an exec started is known whatever
/// it does. The keeper stays above them: freezing all execs leaves it awake.
class ExecGroups {
public:
    /// Below the group of the keeper with this pid; nothing where this process may not make groups there.
    [[nodiscard]] static std::optional<ExecGroups> of(pid_t keeper);

    /// All execs together.
    [[nodiscard]] sys::SandboxGroup& all() noexcept { return all_; }
    [[nodiscard]] const sys::SandboxGroup& all() const noexcept { return all_; }
    [[nodiscard]] Result<sys::SandboxGroup> make(const std::string& exec) const;
    [[nodiscard]] Result<sys::SandboxGroup> open(const std::string& exec) const;
    /// Files into which a child writes "0" to be in the group.
    [[nodiscard]] Result<std::vector<UniqueFd>> births(const std::string& exec) const;
    /// Takes the group of an ended exec away, unless something still runs in it.
    void forget(const std::string& exec) const noexcept;

    /// How often the engine's limits struck up to now.
    struct Strikes {
        std::uint64_t memory = 0;
        std::uint64_t processes = 0;
    };
    [[nodiscard]] Strikes strikes() const;

private:
    ExecGroups(sys::GroupPlaces places, sys::GroupPlaces container, sys::SandboxGroup all)
        : places_(std::move(places)), container_(std::move(container)), all_(std::move(all))
    {
    }
    sys::GroupPlaces places_;    ///< of all execs
    sys::GroupPlaces container_; ///< where the engine's limits are
    sys::SandboxGroup all_;
};

/// The engine holds the whole container still, with the keeper in it.
[[nodiscard]] bool keeper_frozen(pid_t keeper);

/// By which a process from outside comes under all the container's limits of v1; its group of v2 and of the
/// freezer come with those of an exec.
[[nodiscard]] Result<std::vector<UniqueFd>> container_tasks(pid_t keeper);

} // namespace berth::docker
