#include "server/codex/binding.hpp"

#include <algorithm>

#include "policy/target.hpp"
#include "server/codex/binder.hpp"

namespace berth::codex {

namespace {

using policy::Access;
using policy::at_or_below;

constexpr Bound::Ids kStranger{65534, 65534};

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

/// No less than a word for it: the root is writable, and nothing is narrower.
bool writes_everywhere(const Permissions& permissions)
{
    if (permissions.unrestricted_files) return true;
    bool root = false;
    for (const auto& entry : permissions.entries) {
        const auto* const special = std::get_if<SpecialPath>(&entry.path);
        const bool is_root = special != nullptr && special->kind == Special::Root;
        if (entry.access == FileAccess::Deny || (entry.access == FileAccess::Read && !is_root)) return false;
        root = root || (is_root && entry.access == FileAccess::Write);
    }
    return root;
}

/// What stands in for a missing intent. A file operation has no directory: it may write where clients may.
Intent workspace_write(const std::string& cwd, const Ceiling& ceiling)
{
    Intent out;
    out.permissions.entries = {
        special(Special::Root, FileAccess::Read), special(Special::ProjectRoots, FileAccess::Write),
        special(Special::SlashTmp, FileAccess::Write), special(Special::Tmpdir, FileAccess::Write)};
    if (!cwd.empty()) {
        out.cwd = cwd;
    } else {
        out.roots_given = true;
        out.workspace_roots = ceiling.roots;
    }
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

Bound::Ids Bound::rights_at(std::string_view path) const
{
    const auto* const mount = mount_of(path);
    const auto owner = mount == nullptr ? owners.end() : owners.find(mount->target);
    return owner == owners.end() ? kStranger : owner->second;
}

Result<Bound> bind_intent(const std::optional<Intent>& intent, const std::string& cwd, const Ceiling& ceiling,
                          const Places& places)
{
    using enum Ceiling::Unsandboxed;
    const bool open = !intent || writes_everywhere(intent->permissions);
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
    return bind_managed(workspace_write(cwd, ceiling), cwd, ceiling, places);
}

Result<Bound> bind_discovery(const Ceiling& ceiling, const Places& places)
{
    if (ceiling.unsandboxed != Ceiling::Unsandboxed::Refuse) return bind_intent({}, {}, ceiling, places);
    Intent intent;
    intent.permissions.entries = {special(Special::Root, FileAccess::Read)};
    intent.roots_given = true;
    intent.workspace_roots = ceiling.roots;
    BERTH_TRY(auto bound, bind_managed(intent, "/", ceiling, places));
    // Elsewhere it is a stranger, in temporary directories too: in a mount it would be its owner.
    std::erase_if(bound.mounts, [&](const Mount& mount) {
        return std::ranges::none_of(ceiling.roots,
                                    [&](const auto& root) { return at_or_below(mount.target, root); });
    });
    return bound;
}

} // namespace berth::codex
