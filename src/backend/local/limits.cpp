#include "backend/local/limits.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hooks.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"

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

/// Each run with groups holds a locked file in the state directory. These are the ones nobody
/// holds: a killed run left them, and perhaps its groups.
std::vector<std::string> dead_records(int records)
{
    std::vector<std::string> dead;
    UniqueFd again(::openat(records, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* stream = again ? ::fdopendir(again.get()) : nullptr;
    if (stream == nullptr) return dead;
    (void)again.release();                            // the stream owns it now
    while (const dirent* entry = ::readdir(stream)) { // NOLINT(concurrency-mt-unsafe): our own stream
        if (entry->d_name[0] == '.') continue;
        const UniqueFd file(::openat(records, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) dead.emplace_back(entry->d_name);
    }
    ::closedir(stream);
    return dead;
}

std::vector<std::string> sweep(int records, const std::vector<std::string>& dead)
{
    auto removed = sys::CgroupTree::open().sweep();
    for (const auto& name : dead) ::unlinkat(records, name.c_str(), 0);
    return removed;
}

/// The preset's process limit for the one default user needs no group: without a way to another
/// user id the kernel's count of his processes is the sandbox's. A group costs a tenth of a launch;
/// it is made when somebody names a limit, because only a group tells that the limit struck. A template
/// somebody else made may call root "user", so only our own counts.
bool pids_held_by_rlimit(const SandboxSpec& spec)
{
    return spec.policy.limits.pids == policy::preset("sandbox")->limits.pids && spec.user == "user" &&
           spec.root.kind == Template::Kind::Host && spec.policy.privileges == policy::Privileges::None &&
           !spec.policy.nested_namespaces;
}

} // namespace

LimitAvailability availability_of(const sys::CgroupTree& tree)
{
    return {.memory = holding(tree.of(sys::Controller::Memory), "memory"),
            .cpu = holding(tree.of(sys::Controller::Cpu), "cpu"),
            .pids = holding(tree.of(sys::Controller::Pids), "pids")};
}

Result<LimitGroups> LimitGroups::open(const SandboxSpec& spec, const StateDir& state)
{
    LimitGroups groups;
    groups.records_ = state.limited();
    if (const auto dead = dead_records(groups.records_); !dead.empty()) (void)sweep(groups.records_, dead);
    const auto& limits = spec.policy.limits;
    const bool asked = limits.memory || limits.cpus || (limits.pids && !pids_held_by_rlimit(spec));
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
    BERTH_CHECK(record(spec.id));
    BERTH_TRY(auto group, tree_->make(spec.id, limits_));
    group_.emplace(std::move(group));
    return {};
}

/// Before the first group exists, so that whoever finds it later knows to look. Somebody who sweeps
/// at this moment may take the file for a dead run's before it is locked: then it is made again.
Status LimitGroups::record(const std::string& id)
{
    name_ = id;
    for (int tries = 0; tries < 5; ++tries) {
        record_.reset(::openat(records_, name_.c_str(), O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!record_) return fail_errno("recording the groups of {}", id);
        struct stat st{};
        if (::flock(record_.get(), LOCK_EX) == 0 && ::fstat(record_.get(), &st) == 0 && st.st_nlink > 0)
            return {};
    }
    return fail(Code::Unavailable, "the record of {} is removed again and again", id);
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
    if (group_) {
        if (auto removed = group_->remove(); !removed)
            log::warn("a control group could not be removed", {{"error", removed.error().line()}});
        group_.reset();
    }
    if (record_) ::unlinkat(records_, name_.c_str(), 0);
    record_.reset();
}

std::vector<std::string> sweep_groups(const StateDir& state)
{
    return sweep(state.limited(), dead_records(state.limited()));
}

} // namespace berth::local
