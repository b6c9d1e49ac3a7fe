#include "sys/cgroup_kept.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"

namespace berth::sys {
namespace {

/// Only what make_kept named may be opened or removed by name.
Status check_places(const GroupPlaces& places)
{
    auto paths = places.distinct_v1();
    if (!places.v2.empty()) paths.push_back(places.v2);
    if (paths.empty()) return fail(Code::Invalid, "a kept group without a directory");
    for (const auto& path : paths) {
        const auto slash = path.rfind('/');
        const std::string name = slash == std::string::npos ? "" : path.substr(slash + 1);
        if (!name.starts_with(KeptGroup::kPrefix) || !is_group_name(name))
            return fail(Code::Invalid, "{} is not the group of a kept sandbox", printable(path));
    }
    return {};
}

} // namespace

bool is_group_name(std::string_view name) noexcept
{
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-' || c == '.';
    };
    return !name.empty() && name.size() <= 200 && name.front() != '.' && std::ranges::all_of(name, fits);
}

std::string enable_text(ControllerSet controllers)
{
    std::string text;
    for (const auto c : kControllers)
        if (controllers[index(c)] && c != Controller::Freezer)
            text += fmt::format("{}+{}", text.empty() ? "" : " ", to_string(c));
    return text;
}

GroupPlaces KeptGroup::execs_of(const GroupPlaces& places)
{
    GroupPlaces execs = places;
    if (!execs.v2.empty()) execs.v2 += "/x";
    return execs;
}

Result<KeptGroup> KeptGroup::create(const GroupPlaces& places, const GroupLimits& limits,
                                    ControllerSet v2_controllers)
{
    BERTH_CHECK(check_places(places));
    ScopeExit undo([&] { [[maybe_unused]] const auto removed = remove(places); });
    UniqueFd keeper;
    const std::string enable = enable_text(v2_controllers);
    if (!places.v2.empty()) {
        const std::string k = places.v2 + "/k";
        if (::mkdir(places.v2.c_str(), 0755) != 0) {
            undo.dismiss(); // it may be somebody's
            return fail_errno("making group {}", places.v2);
        }
        if (::mkdir(k.c_str(), 0755) != 0) return fail_errno("making group {}", k);
        keeper = UniqueFd(::open(k.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!keeper) return fail_errno("opening group {}", k);
        if (!enable.empty()) BERTH_CHECK(write_control(places.v2 + "/cgroup.subtree_control", enable));
    }
    BERTH_TRY(auto execs, SandboxGroup::create(execs_of(places), limits));
    if (!places.v2.empty() && !enable.empty())
        BERTH_CHECK(write_control(places.v2 + "/x/cgroup.subtree_control", enable));
    execs.release();
    undo.dismiss();
    return KeptGroup(places, std::move(keeper), std::move(execs));
}

Result<KeptGroup> KeptGroup::open(const GroupPlaces& places)
{
    BERTH_CHECK(check_places(places));
    UniqueFd keeper;
    if (!places.v2.empty()) {
        keeper = UniqueFd(::open((places.v2 + "/k").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!keeper) return fail_errno("opening group {}/k", places.v2);
    }
    BERTH_TRY(auto execs, SandboxGroup::open(execs_of(places)));
    return KeptGroup(places, std::move(keeper), std::move(execs));
}

Result<KeptGroup> KeptGroup::widen(const GroupPlaces& before, const GroupPlaces& places,
                                   const GroupLimits& limits)
{
    BERTH_CHECK(check_places(places));
    if (before.v2 != places.v2) return fail(Code::Conflict, "{} is not at {}", before.v2, places.v2);
    const auto there = before.distinct_v1();
    GroupPlaces lacking;
    for (const auto c : kControllers)
        if (const auto& path = places.v1[index(c)]; std::ranges::find(there, path) == there.end())
            lacking.v1[index(c)] = path;
    if (!lacking.empty()) {
        BERTH_TRY(auto made, SandboxGroup::create(lacking, {}));
        made.release();
    }
    BERTH_TRY(auto group, open(places));
    BERTH_CHECK(group.execs_.set_limits(limits));
    return group;
}

Result<SandboxGroup> KeptGroup::make_exec(const std::string& exec) const
{
    if (!is_group_name(exec)) return fail(Code::Invalid, "'{}' is not a name for a group", printable(exec));
    BERTH_TRY(auto group, SandboxGroup::create(exec_places(exec), {}));
    group.release();
    return group;
}

Result<SandboxGroup> KeptGroup::open_exec(const std::string& exec) const
{
    if (!is_group_name(exec)) return fail(Code::Invalid, "'{}' is not a name for a group", printable(exec));
    return SandboxGroup::open(exec_places(exec));
}

/// One hierarchy tells who belongs to an exec; in the others it shares the sandbox's own groups.
GroupPlaces KeptGroup::exec_places(const std::string& exec) const
{
    const GroupPlaces execs = execs_of(places_);
    GroupPlaces one;
    if (!execs.v2.empty())
        one.v2 = execs.v2;
    else if (const auto& freezer = execs.v1[index(Controller::Freezer)]; !freezer.empty())
        one.v1[index(Controller::Freezer)] = freezer;
    else
        for (const auto c : kControllers)
            if (one.empty()) one.v1[index(c)] = execs.v1[index(c)];
    return one.below(exec);
}

std::vector<int> KeptGroup::birth_tasks(const SandboxGroup& exec) const
{
    std::vector<int> tasks = exec.birth_tasks();
    const auto limits = execs_.places().distinct_v1();
    const auto all = execs_.birth_tasks();
    const auto own = exec.places().distinct_v1();
    for (std::size_t i = 0; i < limits.size(); ++i)
        if (own.empty() || !own.front().starts_with(limits[i] + "/")) tasks.push_back(all[i]);
    return tasks;
}

Status KeptGroup::delegate(uid_t uid, gid_t gid) const
{
    if (places_.v2.empty()) return {};
    const std::string procs = places_.v2 + "/cgroup.procs";
    if (::chown(procs.c_str(), uid, gid) != 0) return fail_errno("delegating {} to uid {}", procs, uid);
    return {};
}

Status KeptGroup::remove(const GroupPlaces& places, Patience patience)
{
    BERTH_CHECK(check_places(places));
    // A removal that was interrupted has left some of the directories: take those there are.
    GroupPlaces left = places;
    const auto gone = [](const std::string& path) { return ::access(path.c_str(), F_OK) != 0; };
    if (!left.v2.empty() && gone(left.v2)) left.v2.clear();
    for (auto& path : left.v1)
        if (!path.empty() && gone(path)) path.clear();
    if (left.empty()) return {};
    BERTH_TRY(auto all, SandboxGroup::open(left));
    return all.remove(patience);
}

} // namespace berth::sys
