#include "backend/docker/frozen_root.hpp"

#include <algorithm>
#include <variant>

#include "policy/bind.hpp"

namespace berth::docker {

namespace {

bool within(std::string_view path, std::string_view directory)
{
    return path == directory || (path.starts_with(directory) && path[directory.size()] == '/');
}

bool writes_home(const policy::Policy& policy)
{
    return std::ranges::any_of(policy.files, [](const policy::FileRule& rule) {
        const auto* symbol = std::get_if<policy::Symbolic>(&rule.target);
        return rule.access == policy::Access::Write && symbol != nullptr &&
               symbol->symbol == policy::Symbol::Home;
    });
}

} // namespace

FrozenRoot frozen_root(const SandboxSpec& spec)
{
    if (spec.policy.files.empty()) return {};
    policy::Roots roots;
    for (const auto& mount : spec.mounts)
        if (mount.workspace) roots.workspaces.push_back(mount.target);
    // Where the home is only the image knows.
    if (writes_home(spec.policy)) return {};
    const auto files = policy::bind_files(spec.policy, roots);
    if (!files || files->decide("/") != policy::Access::Read) return {};
    const auto mounted = [&](const std::string& path) {
        const auto around = [&](const auto& one) { return within(path, one.target); };
        return std::ranges::any_of(spec.mounts, around) || std::ranges::any_of(spec.volumes, around);
    };
    FrozenRoot out{.frozen = true, .scratch = {}};
    for (const auto& rule : files->rules) {
        if (rule.access != policy::Access::Write || mounted(rule.path)) continue;
        if (std::ranges::find(roots.tmpdirs, rule.path) == roots.tmpdirs.end()) return {};
        out.scratch.push_back(rule.path);
    }
    return out;
}

} // namespace berth::docker
