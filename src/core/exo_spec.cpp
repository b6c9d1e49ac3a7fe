#include "core/exo_spec.hpp"

namespace berth::exo {

std::optional<Spec> spec_of(const SandboxSpec& spec, const std::string& image)
{
    Spec out{.image = image, .network = spec.policy.network != policy::Network::Off, .workdir = spec.workdir};
    if (spec.policy.network == policy::Network::Allow) return std::nullopt;
    for (const auto& mount : spec.mounts) {
        if (mount.mode == Mount::Mode::Copy) return std::nullopt;
        out.mounts.push_back(
            {.host = mount.source, .guest = mount.target, .writable = mount.mode == Mount::Mode::ReadWrite});
    }
    for (const auto& volume : spec.volumes)
        out.file_systems.push_back({.name = volume.name, .path = volume.target, .writable = volume.writable});
    return out;
}

} // namespace berth::exo
