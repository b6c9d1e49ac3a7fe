#include "backend/local/holdings.hpp"

#include "base/hooks.hpp"
#include "policy/target.hpp"
#include "sys/landlock.hpp"
#include "sys/seccomp.hpp"

namespace berth::local {

using policy::Feature;
using policy::Tier;

std::string lacks_for_patterns(const policy::Policy* policy)
{
    static const std::string lack = sys::lacks_notification();
    if (hooks::lacks("notification")) return "the kernel cannot notify of system calls, say the tests";
    if (!lack.empty()) return lack;
    if (policy == nullptr) return {};
    for (const auto& rule : policy->files)
        if (policy::is_pattern(rule.target) && rule.access != policy::Access::Deny)
            return "only what is denied can be named by a pattern";
    if (policy->nested_namespaces) return "a pattern cannot be held in nested namespaces";
    if (policy->privileges == policy::Privileges::Sudo)
        return "a pattern cannot be held where sudo is allowed";
    return {};
}

int landlock_abi() { return hooks::lacks("landlock") ? 0 : sys::landlock::abi(); }

policy::Holdings hold(const Identity& identity, const RootLayers& layers, const LimitAvailability& limits,
                      const policy::Policy* policy)
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
    if (const std::string lack = lacks_for_patterns(policy); lack.empty())
        have.set(Feature::Globs, Tier::Outside,
                 "a supervisor opens what it has looked at, also what is made later");
    else
        have.set(Feature::Globs, Tier::None, lack);
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
