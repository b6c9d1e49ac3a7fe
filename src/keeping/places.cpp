#include "keeping/places.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::keeping {

std::vector<std::string> candidates(const std::string& command, const std::vector<std::string>& env)
{
    if (command.find('/') != std::string::npos) return {command};
    std::string path = "/usr/local/bin:/usr/bin:/bin";
    for (const auto& variable : env)
        if (variable.starts_with("PATH=")) path = variable.substr(5);
    std::vector<std::string> out;
    for (const auto& dir : split(path, ':'))
        if (!dir.empty()) out.push_back(fmt::format("{}/{}", dir, command));
    return out;
}

policy::Roots roots_of(const SandboxSpec& spec, const Account& user)
{
    policy::Roots roots;
    for (const auto& mount : spec.mounts)
        if (mount.workspace) roots.workspaces.push_back(mount.target);
    roots.home = user.home;
    return roots;
}

std::string workspace_of(const SandboxSpec& spec, const std::string& image_workdir, const Account& user)
{
    if (!spec.workdir.empty()) return spec.workdir;
    const auto shown = [&](const auto& one) {
        return image_workdir == one.target || image_workdir.starts_with(one.target + "/");
    };
    const bool held = !std::ranges::any_of(spec.mounts, shown) && !std::ranges::any_of(spec.volumes, shown);
    // The root of all is nobody's work.
    return !image_workdir.empty() && image_workdir != "/" && held ? image_workdir : user.home;
}

} // namespace berth::keeping
