#include "backend/docker/holdings.hpp"

#include <unistd.h>

#include "base/json_reader.hpp"
#include "core/admit.hpp"
#include "sys/landlock.hpp"

namespace berth::docker {

using policy::Feature;
using policy::Tier;

namespace {

bool flag(const json::Reader& at, std::string_view name)
{
    const auto member = at.find(name);
    return member && *member && (*member)->boolean().value_or(false);
}

} // namespace

bool can_wall() { return ::geteuid() == 0 && sys::landlock::abi() > 0; }

Result<EngineFacts> ask_facts(const Engine& engine)
{
    BERTH_TRY(const auto document, engine.get("/info"));
    const json::Reader at(document);
    EngineFacts out{.memory = flag(at, "MemoryLimit"),
                    .pids = flag(at, "PidsLimit"),
                    .cpus = flag(at, "CpuCfsQuota"),
                    .user_namespaces = false,
                    .walls = can_wall(),
                    .machine = elsewhere(document)};
    BERTH_TRY(const auto options, at.find("SecurityOptions"));
    if (options) {
        BERTH_TRY(const auto words, options->strings());
        for (const auto& word : words)
            if (word.starts_with("name=userns")) out.user_namespaces = true;
    }
    return out;
}

policy::Holdings hold(const EngineFacts& facts)
{
    policy::Holdings have;
    const auto limit = [&](Feature feature, bool held, std::string_view what) {
        if (held)
            have.set(feature, Tier::Outside,
                     fmt::format("the engine's {} limit of the container{}", what,
                                 facts.asked ? "" : ", if it can: it could not be asked"));
        else
            have.set(feature, Tier::None, fmt::format("the engine says that it cannot limit {} here", what));
    };
    have.set(Feature::PrivateRoot, Tier::Outside, "the container's own root over its image");
    const auto walls = [&](Feature feature, std::string_view how) {
        if (facts.walls)
            have.set(feature, Tier::Outside, fmt::format("{} around each command, made from outside", how));
        else if (facts.far)
            have.set(
                feature, Tier::None,
                "the engine is on another machine, where nobody can put walls around a command: use one of "
                "this machine");
        else
            have.set(feature, Tier::None,
                     "commands are given walls of their own by root, with a kernel that has landlock: run "
                     "berth as root");
    };
    walls(Feature::ReadOnlyPaths, "read-only mounts");
    walls(Feature::WritablePaths, "read-only mounts of everything else");
    walls(Feature::DeniedPaths, "empty mounts");
    have.set(Feature::Globs, Tier::None,
             "a pattern must hold for files made later too, which mounts cannot: name the paths");
    walls(Feature::ProtectedNames, "read-only mounts over what is there when it starts");
    have.set(Feature::NetworkOff, Tier::Outside, "network mode none: nothing but loopback");
    have.set(Feature::NetworkAllow, Tier::None, "comes with the egress proxy: use --net off or --net host");
    have.set(
        Feature::NetworkOpen, Tier::None,
        "the engine's bridge reaches this machine and its private networks too: use --net off or --net host");
    have.set(Feature::NetworkHost, Tier::Outside, "the host's network is shared");
    limit(Feature::LimitMemory, facts.memory, "memory");
    limit(Feature::LimitCpu, facts.cpus, "processor");
    limit(Feature::LimitPids, facts.pids, "process");
    have.set(Feature::LimitDisk, Tier::None,
             "the engine limits the disk of a container on few file systems only: use --backend local");
    have.set(Feature::LimitOpenFiles, Tier::Outside, "RLIMIT_NOFILE of each process");
    have.set(Feature::LimitWallTime, Tier::None,
             "nobody ends a container that soon: a lifetime or the timeout of a command may do");
    have.set(Feature::Sudo, Tier::Outside,
             "set-id raises to the container's root, which has few capabilities");
    have.set(Feature::NestedNamespaces, Tier::None, "the engine's filter forbids them: use --backend local");
    have.set(Feature::Devices, Tier::None, "host devices are not passed on by this backend yet");
    return have;
}

Status admit(const SandboxSpec& spec, const policy::Holdings& holdings)
{
    for (const auto& mount : spec.mounts)
        if (mount.mode == Mount::Mode::Copy)
            return fail(
                Code::Unsupported,
                "mount {} as a copy: backend docker shows directories as they are; use ro, or copy it in "
                "with berth cp",
                mount.target);
    std::vector<std::string> notes;
    return berth::admit(spec, holdings, notes);
}

} // namespace berth::docker
