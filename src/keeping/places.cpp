#include "keeping/places.hpp"

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

} // namespace berth::keeping
