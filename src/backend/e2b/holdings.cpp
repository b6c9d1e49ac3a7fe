#include "backend/e2b/holdings.hpp"

#include "base/strings.hpp"
#include "core/admit.hpp"

namespace berth::e2b_client {

using policy::Feature;
using policy::Tier;

policy::Holdings hold()
{
    policy::Holdings have;
    have.set(Feature::PrivateRoot, Tier::Vendor,
             "a machine of its own in the cloud, or a sandbox of a berth server");
    have.set(Feature::NetworkOff, Tier::Vendor, "allow_internet_access false");
    have.set(Feature::NetworkOpen, Tier::Vendor, "allow_internet_access true; a berth server may give less");
    const std::string no_paths = "E2B has no rules on paths: use --backend local";
    for (const Feature feature : {Feature::ReadOnlyPaths, Feature::WritablePaths, Feature::DeniedPaths,
                                  Feature::Globs, Feature::ProtectedNames})
        have.set(feature, Tier::None, no_paths);
    have.set(Feature::NetworkAllow, Tier::None,
             "lists of hosts are not passed on to E2B yet: use --net off or open");
    have.set(Feature::NetworkHost, Tier::None, "this machine's network is not there: use --net off or open");
    const std::string by_template = "E2B sizes a sandbox by its template: name one in E2B_TEMPLATE";
    for (const Feature feature : {Feature::LimitMemory, Feature::LimitCpu, Feature::LimitDisk})
        have.set(feature, Tier::None, by_template);
    const std::string not_there = "E2B has no such limit; the machine around the sandbox is its bound";
    for (const Feature feature : {Feature::LimitPids, Feature::LimitOpenFiles})
        have.set(feature, Tier::None, not_there);
    have.set(Feature::LimitWallTime, Tier::None, "a lifetime or the timeout of a command may do");
    have.set(Feature::Sudo, Tier::None, "the template decides who may become root");
    have.set(Feature::NestedNamespaces, Tier::None, "the template decides: nothing is promised");
    have.set(Feature::Devices, Tier::None, "devices of this machine are not there");
    return have;
}

Status admit(const SandboxSpec& spec)
{
    if (!spec.mounts.empty())
        return fail(Code::Unsupported,
                    "mount {}: backend e2b cannot show directories of this machine; copy it in with berth cp",
                    printable(spec.mounts.front().target));
    if (!spec.volumes.empty())
        return fail(Code::Unsupported, "volume at {}: backend e2b does not mount volumes",
                    printable(spec.volumes.front().target));
    if (spec.root.kind != Template::Kind::Host && spec.root.kind != Template::Kind::Image)
        return fail(
            Code::Unsupported,
            "template {}: backend e2b starts from templates that the server has: image:NAME, or name it "
            "in E2B_TEMPLATE",
            printable(to_string(spec.root)));
    std::vector<std::string> notes;
    return berth::admit(spec, hold(), notes);
}

} // namespace berth::e2b_client
