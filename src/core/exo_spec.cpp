#include "core/exo_spec.hpp"

#include <climits>
#include <cstdlib>

namespace berth::exo {

namespace {

/// exo hashes where a mount really lies. A source that is not there it would refuse.
std::string real_path(const std::string& path)
{
    char buffer[PATH_MAX];
    return ::realpath(path.c_str(), &buffer[0]) == nullptr ? path : std::string(&buffer[0]);
}

} // namespace

std::optional<Spec> spec_of(const SandboxSpec& spec, const std::string& image)
{
    Spec out{.image = image, .network = spec.policy.network != policy::Network::Off, .workdir = spec.workdir};
    if (spec.policy.network == policy::Network::Allow) return std::nullopt;
    for (const auto& mount : spec.mounts) {
        if (mount.mode == Mount::Mode::Copy) return std::nullopt;
        out.mounts.push_back({.host = real_path(mount.source),
                              .guest = mount.target,
                              .writable = mount.mode == Mount::Mode::ReadWrite});
    }
    for (const auto& volume : spec.volumes)
        out.file_systems.push_back({.name = volume.name, .path = volume.target, .writable = volume.writable});
    return out;
}

std::string hash_as_given(const SandboxSpec& spec)
{
    const bool named = spec.root.kind == Template::Kind::Image;
    if (!named && spec.root.kind != Template::Kind::Host) return {};
    const auto exo = spec_of(spec, named ? spec.root.path : std::string{});
    return exo ? spec_hash(*exo) : std::string{};
}

} // namespace berth::exo
