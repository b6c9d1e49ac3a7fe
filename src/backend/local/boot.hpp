#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/local/instance.hpp"
#include "backend/local/prepare.hpp"
#include "backend/local/shared.hpp"
#include "keeping/keeper_client.hpp"
#include "sys/spawner.hpp"

namespace berth::local {

/// What an instance needs before its keeper can be launched: all that may be refused is refused here.
struct Grounds {
    std::unique_ptr<Prepared> prepared;
    std::optional<sys::CgroupTree> tree; ///< where it gets groups
    bool groups = true;                  ///< also where no limit needs them
};

struct GroundOptions {
    Pools* pools = nullptr;
    Pools::Progress progress{};
    bool groups = true;
    const RootLayers* known = nullptr; ///< the template's directories, where they were found before
    const Pins* pins = nullptr;        ///< of its mounts, where it ran before
};
[[nodiscard]] Result<Grounds> prepare_kept(const StateDir& state, const SandboxSpec& spec,
                                           const GroundOptions& options = {});

/// A keeper that answers.
struct Booted {
    std::unique_ptr<Prepared> prepared;
    KeeperClient keeper;
    pid_t pid = -1;
    UniqueFd pidfd;
    std::optional<sys::KeptGroup> group;
    UniqueFd maker; ///< of a parked one: when it is closed, the keeper ends unless it was claimed
};

/// Whether a record of the instance exists: then it tells of the groups before they are made. Where it does
/// so already, groups that are there are taken as they are. Parked: it is nobody's yet, and its record is
/// kept apart.
enum class Recorded { No, Yes, WithGroups, Parked };

/// What of the limits the control groups of this machine hold.
[[nodiscard]] sys::GroupLimits group_limits(const policy::Limits& limits, const sys::CgroupTree& tree);

/// Where its groups will be; empty when it gets none.
[[nodiscard]] sys::GroupPlaces groups_for(const std::string& native, const Grounds& grounds);

/// Whether its files can be shown where something is mounted in /usr (bound_usr.hpp). boot() asks, too; who
/// ends a keeper to start another asks before.
[[nodiscard]] Status check_usr(const StateDir& state, const std::string& native, const Instance& instance,
                               const Plan& plan);

/// Makes groups and socket, launches the keeper on the instance's files, and records it. The directory is
/// locked by the caller. What was made is undone on failure; a killed caller leaves what
/// bring_to_rest() or destroying it takes away.
[[nodiscard]] Result<Booted> boot(const StateDir& state, const std::string& native, int directory,
                                  Instance& instance, Grounds grounds, Recorded recorded,
                                  sys::Spawner* spawner = sys::Spawner::companion());

} // namespace berth::local
