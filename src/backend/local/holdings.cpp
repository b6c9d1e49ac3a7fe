#include "backend/local/holdings.hpp"

#include "base/hooks.hpp"
#include "sys/landlock.hpp"

namespace berth::local {

using policy::Feature;
using policy::Tier;

int landlock_abi() { return hooks::lacks("landlock") ? 0 : sys::landlock::abi(); }

policy::Holdings hold(const Identity& identity, const RootLayers& layers, const LimitAvailability& limits)
{
    policy::Holdings have;
    const bool live = layers.kind == Template::Kind::Live;
    if (live)
        have.set(Feature::PrivateRoot, Tier::None, "template live shows the host's own files");
    else
        have.set(Feature::PrivateRoot, Tier::Outside, "own mount namespace and root overlay");
    have.set(Feature::ReadOnlyPaths, Tier::Outside, "read-only mounts");
    have.set(Feature::WritablePaths, Tier::Outside, "everything else is mounted read-only");
    have.set(Feature::DeniedPaths, Tier::Outside, "covered by an empty mount");
    have.set(Feature::Globs, Tier::None,
             "a pattern must hold for files made later too, which mounts cannot: name the paths");
    have.set(Feature::ProtectedNames, Tier::Outside,
             "read-only mounts over what is there when the command starts");
    have.set(Feature::NetworkOff, Tier::Outside, "own network namespace with nothing but loopback");
    have.set(Feature::NetworkAllow, Tier::None, "comes with the egress proxy: use --net off or --net host");
    have.set(Feature::NetworkOpen, Tier::None, "comes with the egress proxy: use --net off or --net host");
    have.set(Feature::NetworkHost, Tier::Outside, "the host's network is shared");
    have.set(Feature::LimitMemory, limits.memory.tier, limits.memory.how);
    have.set(Feature::LimitCpu, limits.cpu.tier, limits.cpu.how);
    if (limits.pids.tier == Tier::None && identity.mode == IdMode::Own)
        have.set(Feature::LimitPids, Tier::Outside, "RLIMIT_NPROC of the sandbox's one user");
    else
        have.set(Feature::LimitPids, limits.pids.tier,
                 limits.pids.tier == Tier::None
                     ? limits.pids.how
                     : limits.pids.how + ", or RLIMIT_NPROC for the default limit of the default user");
    have.set(Feature::LimitDisk, Tier::Outside, "size of the sandbox's own tmpfs");
    have.set(Feature::LimitOpenFiles, Tier::Outside, "RLIMIT_NOFILE of each process");
    have.set(Feature::LimitWallTime, Tier::Outside, "the launcher kills the sandbox");
    if (identity.mode == IdMode::Mapped)
        have.set(Feature::Sudo, Tier::Outside, "set-id raises to mapped root only");
    else
        have.set(Feature::Sudo, Tier::None, "needs mapped ids: run berth as root");
    have.set(Feature::NestedNamespaces, Tier::Outside, "the filter lets them through");
    have.set(Feature::Devices, Tier::None, "host devices are not passed on by this backend yet");
    return have;
}

} // namespace berth::local
