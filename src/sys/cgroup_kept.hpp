#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/cgroup_group.hpp"

namespace berth::sys {

/// The groups of a kept sandbox:
///
///     v2  <sandbox>/k          the keeper, born there, outside of every limit and freeze
///         <sandbox>/x          the limits of all execs together
///         <sandbox>/x/<exec>   one exec with all it started
///     v1  <sandbox>            the limits; the keeper is not in it
///         <sandbox>/<exec>     without v2 only, and in one hierarchy only: the freezer's if there is one
///
/// They outlive every process of ours: destroying this object changes nothing. places() is what a
/// record keeps, since another process may sit elsewhere and look elsewhere.
class KeptGroup {
public:
    static constexpr std::string_view kPrefix = "berth-keep-";

    /// `v2_controllers` are those that `places.v2` gets from above.
    [[nodiscard]] static Result<KeptGroup> create(const GroupPlaces& places, const GroupLimits& limits,
                                                  ControllerSet v2_controllers);
    [[nodiscard]] static Result<KeptGroup> open(const GroupPlaces& places);
    /// One in which nothing has run yet, at more places and with other limits than it was made with.
    [[nodiscard]] static Result<KeptGroup> widen(const GroupPlaces& before, const GroupPlaces& places,
                                                 const GroupLimits& limits);

    [[nodiscard]] const GroupPlaces& places() const noexcept { return places_; }
    /// v2 directory for the keeper's CLONE_INTO_CGROUP, or -1. Borrowed.
    [[nodiscard]] int keeper_directory() const noexcept { return keeper_.get(); }
    /// All execs together, without the keeper: their limits, freeze, kill and use.
    [[nodiscard]] SandboxGroup& execs() noexcept { return execs_; }
    [[nodiscard]] const SandboxGroup& execs() const noexcept { return execs_; }

    /// Closes what is held open; the keeper's directory, which nobody needs after its birth, for good.
    void rest() noexcept
    {
        keeper_.reset();
        execs_.rest();
    }

    /// Who belongs to one exec. Released: the exec outlives its client. remove() it after the exit has
    /// been read.
    [[nodiscard]] Result<SandboxGroup> make_exec(const std::string& exec) const;
    [[nodiscard]] Result<SandboxGroup> open_exec(const std::string& exec) const;
    /// v1 `tasks` files into which the exec's child writes "0": its own, and those of the limits. Borrowed.
    [[nodiscard]] std::vector<int> birth_tasks(const SandboxGroup& exec) const;

    /// Lets a keeper with these (host-side) ids bring children into groups that are themselves
    /// delegated: the kernel asks for cgroup.procs of the target and of the common ancestor of
    /// both. This is the ancestor; SandboxGroup::delegate the target. Nothing else changes hands.
    [[nodiscard]] Status delegate(uid_t uid, gid_t gid) const;

    /// Kills everything, the keeper included, and removes all groups. Already gone is success.
    [[nodiscard]] static Status remove(const GroupPlaces& places, Patience patience = Patience(5000));

private:
    KeptGroup(GroupPlaces places, UniqueFd keeper, SandboxGroup execs) noexcept
        : places_(std::move(places)), keeper_(std::move(keeper)), execs_(std::move(execs))
    {
    }
    [[nodiscard]] static GroupPlaces execs_of(const GroupPlaces& places);
    [[nodiscard]] GroupPlaces exec_places(const std::string& exec) const;

    GroupPlaces places_;
    UniqueFd keeper_;
    SandboxGroup execs_;
};

/// True for what may become the name of a group: letters, digits, '_', '-' and '.', not hidden.
[[nodiscard]] bool is_group_name(std::string_view name) noexcept;

/// "+memory +pids" for cgroup.subtree_control.
[[nodiscard]] std::string enable_text(ControllerSet controllers);

} // namespace berth::sys
