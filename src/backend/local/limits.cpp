#include "backend/local/limits.hpp"

#include <algorithm>

#include "base/hooks.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "sys/cgroup_files.hpp"

namespace berth::local {

namespace {

policy::Holding holding(const sys::Facility& facility, std::string_view name)
{
    if (facility.available())
        return {.tier = policy::Tier::Outside,
                .how = fmt::format("control group {} ({})", name, sys::to_string(facility.version))};
    return {.tier = policy::Tier::None,
            .how = fmt::format("{}: {}", facility.lack.reason, facility.lack.remedy)};
}

/// The cheap question every run asks: one directory is read, since each group of ours is in the
/// first place that exists. Only when a maker there is dead is the whole machine looked at.
bool left_by_the_dead(const sys::CgroupTree& tree)
{
    const auto& freezer = tree.of(sys::Controller::Freezer);
    const std::string& where = tree.leaf().available() ? tree.leaf().where : freezer.where;
    if (where.empty()) return false;
    return std::ranges::any_of(sys::subgroups(where + "/" + sys::CgroupOptions{}.parent),
                               [](const std::string& name) {
                                   const auto maker = sys::maker_of(name);
                                   return maker && !sys::may_be_alive(*maker);
                               });
}

} // namespace

LimitAvailability availability_of(const sys::CgroupTree& tree)
{
    return {.memory = holding(tree.of(sys::Controller::Memory), "memory"),
            .cpu = holding(tree.of(sys::Controller::Cpu), "cpu"),
            .pids = holding(tree.of(sys::Controller::Pids), "pids")};
}

Result<LimitGroups> LimitGroups::open(const SandboxSpec& spec)
{
    LimitGroups groups;
    const auto& limits = spec.policy.limits;
    const bool asked = limits.memory || limits.cpus || limits.pids;
    if (asked && !hooks::wall_off("cgroup")) groups.tree_.emplace(sys::CgroupTree::open());
    return groups;
}

LimitAvailability LimitGroups::availability() const
{
    if (tree_) return availability_of(*tree_);
    // Nothing was asked for, or a test took the wall away: then the rest of it must still start.
    const policy::Holding held{.tier = policy::Tier::Outside, .how = "control groups"};
    return {.memory = held, .cpu = held, .pids = held};
}

Status LimitGroups::make(const SandboxSpec& spec)
{
    if (!tree_) return {};
    const auto& wanted = spec.policy.limits;
    const auto can = [&](sys::Controller c) { return tree_->of(c).available(); };
    if (can(sys::Controller::Memory)) limits_.memory = wanted.memory;
    if (can(sys::Controller::Cpu)) limits_.cpus = wanted.cpus;
    if (can(sys::Controller::Pids)) limits_.pids = wanted.pids;
    limits_.oom_takes_all = true; // the sandbox is one command; half of it is worth nothing
    if (limits_.controllers().none()) return {};
    if (left_by_the_dead(*tree_)) (void)tree_->sweep(); // what is busy now is swept another time
    BERTH_TRY(auto group, tree_->make(spec.id, limits_));
    group_.emplace(std::move(group));
    return {};
}

std::vector<int> LimitGroups::v1_tasks() const { return group_ ? group_->birth_tasks() : std::vector<int>{}; }
int LimitGroups::v2_directory() const { return group_ ? group_->birth_directory() : -1; }

std::vector<std::string> LimitGroups::struck() const
{
    std::vector<std::string> out;
    if (!group_) return out;
    if (limits_.memory && group_->oom_kills().value_or(0) > 0)
        out.push_back(fmt::format("memory limit {}", show(*limits_.memory)));
    if (limits_.pids && group_->pids_max_events().value_or(0) > 0)
        out.push_back(fmt::format("process limit {}", *limits_.pids));
    return out;
}

void LimitGroups::remove()
{
    if (!group_) return;
    if (auto removed = group_->remove(); !removed)
        log::warn("a control group could not be removed", {{"error", removed.error().line()}});
    group_.reset();
}

std::vector<std::string> sweep_groups() { return sys::CgroupTree::open().sweep(); }

} // namespace berth::local
