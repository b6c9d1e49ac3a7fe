#include "backend/local/limits.hpp"

#include "base/hooks.hpp"
#include "base/log.hpp"
#include "core/struck.hpp"

namespace berth::local {

namespace {

/// The preset's process limit for the one default user needs no group: without a way to another
/// user id the kernel's count of his processes is the sandbox's. A group costs a tenth of a launch;
/// it is made when somebody names a limit, because only a group tells that the limit struck. A template
/// somebody else made may call root "user", so only our own counts.
bool pids_held_by_rlimit(const SandboxSpec& spec)
{
    return spec.policy.limits.pids == policy::preset("sandbox")->limits.pids && spec.user == "user" &&
           (spec.root.kind == Template::Kind::Host || spec.root.kind == Template::Kind::Live) &&
           spec.policy.privileges == policy::Privileges::None && !spec.policy.nested_namespaces;
}

} // namespace

LimitGroups LimitGroups::open(const SandboxSpec& spec, const StateDir& state, Pools* pools)
{
    LimitGroups groups;
    if (pools == nullptr) groups.own_ = std::make_unique<GroupPool>(state);
    groups.pool_ = pools != nullptr ? &pools->groups() : groups.own_.get();
    const auto& limits = spec.policy.limits;
    const bool asked = limits.memory || limits.cpus || (limits.pids && !pids_held_by_rlimit(spec));
    groups.wanted_ = asked && !hooks::wall_off("cgroup");
    return groups;
}

LimitAvailability LimitGroups::availability() const
{
    if (wanted_) return availability_of(pool_->tree());
    // Nothing was asked for, or a test took the wall away: then the rest of it must still start.
    const policy::Holding held{.tier = policy::Tier::Outside, .how = "control groups"};
    return {.memory = held, .cpu = held, .pids = held};
}

Status LimitGroups::make(const SandboxSpec& spec)
{
    if (!wanted_) return {};
    const auto& wanted = spec.policy.limits;
    const auto can = [&](sys::Controller c) { return pool_->tree().of(c).available(); };
    if (can(sys::Controller::Memory)) limits_.memory = wanted.memory;
    if (can(sys::Controller::Cpu)) limits_.cpus = wanted.cpus;
    if (can(sys::Controller::Pids)) limits_.pids = wanted.pids;
    limits_.oom_takes_all = true; // the sandbox is one command; half of it is worth nothing
    if (limits_.controllers().none()) return {};
    BERTH_TRY(auto group, pool_->take(limits_));
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
        out.push_back(struck::by_memory(*limits_.memory));
    if (limits_.pids && group_->pids_max_events().value_or(0) > 0)
        out.push_back(struck::by_processes(*limits_.pids));
    if (limits_.cpus)
        if (const auto waited = group_->throttled(); waited && *waited >= struck::kWorthTelling)
            out.push_back(struck::by_cpus(*limits_.cpus, *waited));
    return out;
}

void LimitGroups::remove()
{
    if (!group_) return;
    if (auto removed = group_->remove(); !removed)
        log::warn("a control group could not be removed", {{"error", removed.error().line()}});
    group_.reset();
}

} // namespace berth::local
