#include "server/codex/binding.hpp"

#include <algorithm>

#include "policy/target.hpp"
#include "server/codex/binder.hpp"

namespace berth::codex {

namespace {

using policy::Access;
using policy::at_or_below;

Bound unconfined()
{
    Bound out;
    out.confined = false;
    return out;
}

IntentEntry special(Special kind, FileAccess access)
{
    return {.path = SpecialPath{.kind = kind, .subpath = {}}, .access = access};
}

/// What stands in for a missing intent.
Intent workspace_write(const std::string& cwd)
{
    Intent out;
    out.permissions.entries = {
        special(Special::Root, FileAccess::Read), special(Special::ProjectRoots, FileAccess::Write),
        special(Special::SlashTmp, FileAccess::Write), special(Special::Tmpdir, FileAccess::Write)};
    out.cwd = cwd;
    return out;
}

} // namespace

policy::Access Bound::decide(std::string_view path) const
{
    if (!confined) return Access::Write;
    const bool in_workspace = std::ranges::any_of(mounts, [&](const Mount& mount) {
        return mount.workspace && mount.mode == Mount::Mode::ReadWrite && at_or_below(path, mount.target);
    });
    return in_workspace ? files.decide(path) : files_unprotected.decide(path);
}

const Mount* Bound::mount_of(std::string_view path) const
{
    const Mount* deepest = nullptr;
    for (const auto& mount : mounts)
        if (at_or_below(path, mount.target)) deepest = &mount;
    return deepest;
}

Result<Bound> bind_intent(const std::optional<Intent>& intent, const std::string& cwd, const Ceiling& ceiling,
                          const Places& places)
{
    using enum Ceiling::Unsandboxed;
    const bool open = !intent || intent->permissions.unrestricted_files;
    if (!open) return bind_managed(*intent, cwd, ceiling, places);
    // Whoever may write everywhere reaches the host's own services, and by them the network.
    if (intent && intent->permissions.network == NetworkIntent::Restricted)
        return fail(Code::Unsupported,
                    "unrestricted files with a restricted network: what may write everywhere "
                    "gets out through services of the host");
    if (ceiling.unsandboxed == Allow) return unconfined();
    if (ceiling.unsandboxed == Refuse)
        return fail(Code::Denied, "no sandbox was asked for, and this executor runs nothing without one "
                                  "(--unsandboxed allow, or confine)");
    const Intent instead = workspace_write(cwd);
    return bind_managed(instead, cwd, ceiling, places);
}

Result<Bound> bind_discovery(const Ceiling& ceiling, const Places& places)
{
    if (ceiling.unsandboxed == Ceiling::Unsandboxed::Allow) return unconfined();
    Intent intent;
    intent.permissions.entries = {special(Special::Root, FileAccess::Read)};
    intent.roots_given = true;
    intent.workspace_roots = ceiling.roots;
    return bind_managed(intent, "/", ceiling, places);
}

} // namespace berth::codex
