#include "backend/exec_server/holdings.hpp"

#include "base/strings.hpp"
#include "core/admit.hpp"

namespace berth::exec_server {

using policy::Feature;
using policy::Tier;

policy::Holdings hold()
{
    policy::Holdings have;
    const std::string intent = "the intent of each call; tried at the server before the first sandbox";
    have.set(Feature::PrivateRoot, Tier::Vendor,
             "the server's programs to read and directories of its own: " + intent);
    for (const Feature feature :
         {Feature::ReadOnlyPaths, Feature::WritablePaths, Feature::DeniedPaths, Feature::NetworkOff})
        have.set(feature, Tier::Vendor, intent);
    have.set(Feature::Globs, Tier::None,
             "patterns must hold for files made later: berth's server does that, Codex's looks once, and "
             "which one "
             "it is cannot be told; name the paths");
    have.set(Feature::NetworkHost, Tier::Vendor, "the server's own network, where it grants that");
    have.set(Feature::ProtectedNames, Tier::Vendor,
             "an entry for each name at the top of the workspace, and for each that is there deeper when a "
             "command begins: " +
                 intent);
    const std::string words = "an exec-server knows its whole network or none: use --net off or host";
    have.set(Feature::NetworkAllow, Tier::None, words);
    have.set(Feature::NetworkOpen, Tier::None, words);
    const std::string limits =
        "the protocol has no limits: give them to the server (berth exec-server --memory …)";
    for (const Feature feature : {Feature::LimitMemory, Feature::LimitCpu, Feature::LimitPids,
                                  Feature::LimitDisk, Feature::LimitOpenFiles})
        have.set(feature, Tier::None, limits);
    have.set(Feature::LimitWallTime, Tier::None, "a lifetime or the timeout of a command may do");
    have.set(Feature::Sudo, Tier::None, "the server decides who its commands are");
    have.set(Feature::NestedNamespaces, Tier::None, "the server decides: nothing is promised");
    have.set(Feature::Devices, Tier::None, "devices of this machine are not there");
    return have;
}

Status admit(const SandboxSpec& spec)
{
    if (!spec.mounts.empty())
        return fail(Code::Unsupported,
                    "mount {}: backend exec-server cannot show directories of this machine; copy it in with "
                    "berth cp",
                    printable(spec.mounts.front().target));
    if (!spec.volumes.empty())
        return fail(Code::Unsupported, "volume at {}: backend exec-server does not mount volumes",
                    printable(spec.volumes.front().target));
    if (spec.root.kind != Template::Kind::Host && spec.root.kind != Template::Kind::Live)
        return fail(Code::Unsupported,
                    "template {}: a sandbox of an exec-server has the server's own programs",
                    printable(to_string(spec.root)));
    if (spec.user != "user")
        return fail(Code::Unsupported, "user {}: an exec-server runs everything as one user of its own",
                    printable(spec.user, 60));
    std::vector<std::string> notes;
    return berth::admit(spec, hold(), notes);
}

} // namespace berth::exec_server
