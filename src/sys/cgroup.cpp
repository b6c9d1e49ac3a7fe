#include "sys/cgroup.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::sys {
namespace {

constexpr Bytes kMaxMountTable = 16_MiB;

Facility no(Lack lack) { return {.version = Facility::Version::None, .where = "", .lack = std::move(lack)}; }

Lack no_v2(const CgroupLayout& layout)
{
    if (!layout.why_no_v2.empty())
        return {layout.why_no_v2, "mount the control groups inside our cgroup namespace"};
    return {"no cgroup file system is mounted", "mount one: mount -t cgroup2 none /sys/fs/cgroup"};
}

Lack closed_v1(const std::string& path)
{
    return {fmt::format("group {} belongs to somebody else or is mounted read-only", path),
            "run as root, or " + delegation_remedy()};
}

} // namespace

std::string_view to_string(Facility::Version version) noexcept
{
    switch (version) {
    case Facility::Version::None: return "none";
    case Facility::Version::V1: return "v1";
    case Facility::Version::V2: return "v2";
    }
    return "none";
}

CgroupTree CgroupTree::open(const CgroupOptions& options)
{
    // A kernel without control groups has no such file: then there is nothing, and that is said.
    const auto own = read_file("/proc/self/cgroup").value_or("");
    const auto mounts = read_file("/proc/self/mountinfo", kMaxMountTable).value_or("");
    return open(parse_layout(own, mounts), options);
}

CgroupTree CgroupTree::open(const CgroupLayout& layout, const CgroupOptions& options)
{
    using enum Facility::Version;
    CgroupTree tree;
    tree.options_ = options;
    tree.layout_ = layout;
    tree.maker_ = this_process();
    tree.base_ = layout.v2 ? choose_v2_base(*layout.v2, options.move_self)
                           : V2Base{.path = "", .enabled = {}, .lack = no_v2(layout)};
    const V2Base& base = tree.base_;
    tree.leaf_ = base.path.empty() ? no(base.lack) : Facility{.version = V2, .where = base.path, .lack = {}};
    for (const auto c : kControllers) {
        Facility& facility = tree.controllers_[index(c)];
        const auto& v1 = layout.v1[index(c)];
        const bool in_v2 = c == Controller::Freezer || base.enabled[index(c)];
        if (!base.path.empty() && in_v2)
            facility = {.version = V2, .where = base.path, .lack = {}};
        else if (v1 && may_write(lasting(*v1).path))
            facility = {.version = V1, .where = lasting(*v1).path, .lack = {}};
        else if (v1 && may_write(v1->path))
            facility = {.version = V1, .where = v1->path, .lack = {}};
        else
            facility = no(v1 ? closed_v1(v1->path) : base.lack);
    }
    return tree;
}

bool CgroupTree::usable() const noexcept
{
    return leaf_.available() || std::ranges::any_of(controllers_, &Facility::available);
}

Status CgroupTree::admit(ControllerSet needed) const
{
    std::vector<std::string> unmet;
    for (const auto c : kControllers)
        if (const auto& f = of(c); needed[index(c)] && !f.available())
            unmet.push_back(fmt::format("{} ({}; {})", to_string(c), f.lack.reason, f.lack.remedy));
    if (unmet.empty()) return {};
    return fail(Code::Unsupported, "cannot limit {}", fmt::join(unmet, ", "));
}

/// The groups directly above a new one. A hierarchy of v1 is used only for what is needed: each
/// costs its own making, joining and removing.
GroupPlaces CgroupTree::parents(ControllerSet needed, Leaf leaf) const
{
    GroupPlaces places;
    const auto in_v2 = [&](Controller c) {
        return needed[index(c)] && of(c).version == Facility::Version::V2;
    };
    const bool wanted = leaf == Leaf::Always || std::ranges::any_of(kControllers, in_v2);
    if (leaf_.available() && wanted) places.v2 = leaf_.where + "/" + options_.parent;
    if (!leaf_.available() && wanted) needed.set(index(Controller::Freezer));
    for (const auto c : kControllers)
        if (const auto& f = of(c); needed[index(c)] && f.version == Facility::Version::V1)
            places.v1[index(c)] = f.where + "/" + options_.parent;
    // Without v2 and freezer any hierarchy will do to know who belongs together.
    if (places.empty())
        for (const auto c : kControllers)
            if (const auto& f = of(c); places.empty() && f.version == Facility::Version::V1)
                places.v1[index(c)] = f.where + "/" + options_.parent;
    return places;
}

/// Makes the parents, and has the v2 one hand its controllers down.
Status CgroupTree::prepare(const GroupPlaces& parents) const
{
    for (const auto& path : parents.distinct_v1()) {
        if (::mkdir(path.c_str(), 0755) == 0) {
            // Before 5.11 a limit does not hold for the groups below unless told so.
            static_cast<void>(write_control(path + "/memory.use_hierarchy", "1"));
            inherit_cpuset(path);
        } else if (errno != EEXIST) {
            return fail_errno("making group {}", path);
        }
    }
    if (parents.v2.empty()) return {};
    if (::mkdir(parents.v2.c_str(), 0755) != 0 && errno != EEXIST)
        return fail_errno("making group {}", parents.v2);
    if (base_.enabled.none()) return {};
    const std::string control = parents.v2 + "/cgroup.subtree_control";
    if ((base_.enabled & ~parse_controllers(read_file(control).value_or(""))).none()) return {};
    return write_control(control, enable_text(base_.enabled));
}

Result<SandboxGroup> CgroupTree::make(const std::string& name, const GroupLimits& limits) const
{
    BERTH_TRY(auto group, make(name, limits.controllers(), Leaf::Always));
    BERTH_CHECK(group.set_limits(limits));
    return group;
}

Result<SandboxGroup> CgroupTree::make(const std::string& name, ControllerSet controllers, Leaf leaf) const
{
    if (!is_group_name(name)) return fail(Code::Invalid, "'{}' is not a name for a group", printable(name));
    BERTH_CHECK(admit(controllers));
    if (!usable())
        return fail(Code::Unsupported, "no group can be made: {}; {}", leaf_.lack.reason, leaf_.lack.remedy);
    const GroupPlaces above = parents(controllers, leaf);
    BERTH_CHECK(prepare(above));
    const Maker maker = maker_.pid == ::getpid() ? maker_ : this_process(); // we may be a fork
    return SandboxGroup::create(above.below(group_name(maker, name)), {});
}

GroupPlaces CgroupTree::kept_places(const std::string& sandbox, const GroupLimits& limits) const
{
    return parents(limits.controllers()).below(fmt::format("{}{}", KeptGroup::kPrefix, sandbox));
}

Result<KeptGroup> CgroupTree::make_kept(const std::string& sandbox, const GroupLimits& limits) const
{
    if (!is_group_name(sandbox))
        return fail(Code::Invalid, "'{}' is not a name for a group", printable(sandbox));
    BERTH_CHECK(admit(limits.controllers()));
    if (!usable())
        return fail(Code::Unsupported, "no group can be made: {}; {}", leaf_.lack.reason, leaf_.lack.remedy);
    BERTH_CHECK(prepare(parents(limits.controllers())));
    // Without limits it is there to freeze and kill alone: controllers would only cost.
    const auto controllers = limits.controllers().any() ? base_.enabled : ControllerSet();
    return KeptGroup::create(kept_places(sandbox, limits), limits, controllers);
}

Result<KeptGroup> CgroupTree::widen_kept(const std::string& sandbox, const GroupPlaces& before,
                                         const GroupLimits& limits) const
{
    BERTH_CHECK(admit(limits.controllers()));
    BERTH_CHECK(prepare(parents(limits.controllers())));
    return KeptGroup::widen(before, kept_places(sandbox, limits), limits);
}

/// Another process of ours may have sat higher or lower than we do.
std::vector<std::string> CgroupTree::all_parents(const std::optional<OwnGroup>& own) const
{
    std::vector<std::string> paths;
    if (own)
        for (const auto& group : ancestry(*own)) paths.push_back(group + "/" + options_.parent);
    return paths;
}

std::vector<std::string> CgroupTree::sweep(const Claimed& claimed) const
{
    std::map<std::string, GroupPlaces> left;
    const auto collect = [&](const std::optional<OwnGroup>& own, auto place) {
        for (const auto& parent : all_parents(own))
            for (const auto& name : subgroups(parent)) {
                const auto maker = maker_of(name);
                if (maker && !may_be_alive(*maker) && !(claimed && claimed(name)))
                    place(left[name]) = parent + "/" + name;
            }
    };
    collect(layout_.v2, [](GroupPlaces& places) -> std::string& { return places.v2; });
    for (const auto c : kControllers)
        collect(layout_.v1[index(c)],
                [c](GroupPlaces& places) -> std::string& { return places.v1[index(c)]; });

    std::vector<std::string> removed;
    for (const auto& [name, places] : left) {
        auto group = SandboxGroup::open(places);
        if (group && group->remove()) removed.push_back(name);
    }
    return removed;
}

void CgroupTree::remove_parents() const
{
    const GroupPlaces all = parents(ControllerSet().set());
    for (const auto& path : all.distinct_v1()) ::rmdir(path.c_str());
    if (!all.v2.empty()) ::rmdir(all.v2.c_str());
}

} // namespace berth::sys
