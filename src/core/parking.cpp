#include "core/parking.hpp"

namespace berth {

std::optional<SandboxSpec> shape_of(const SandboxSpec& spec)
{
    if (!spec.mounts.empty() || !spec.volumes.empty() || spec.root.kind == Template::Kind::Live)
        return std::nullopt;
    SandboxSpec shape = spec;
    shape.id.clear();
    shape.name.clear();
    shape.hostname.clear();
    shape.labels.clear();
    shape.env.clear();
    shape.workdir.clear();
    shape.policy.name.clear();
    // Processes are counted by a resource limit, too, which the keeper already has.
    shape.policy.limits.memory.reset();
    shape.policy.limits.cpus.reset();
    return shape;
}

} // namespace berth
