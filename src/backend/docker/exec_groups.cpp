#include "backend/docker/exec_groups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::docker {

namespace {

constexpr const char* kName = "berth";

/// The keeper's own groups. One that is the top of its hierarchy is everybody's, and not the container's.
sys::GroupPlaces groups_of(pid_t keeper)
{
    sys::GroupPlaces out;
    const auto own = read_file(fmt::format("/proc/{}/cgroup", keeper));
    const auto mounts = read_file("/proc/self/mountinfo");
    if (!own || !mounts) return out;
    const auto layout = sys::parse_layout(*own, *mounts);
    if (layout.v2 && layout.v2->path != layout.v2->mount) out.v2 = layout.v2->path;
    for (const auto controller : sys::kControllers) {
        const auto& group = layout.v1[sys::index(controller)];
        if (group && group->path != group->mount) out.v1[sys::index(controller)] = group->path;
    }
    return out;
}

} // namespace

std::optional<ExecGroups> ExecGroups::of(pid_t keeper)
{
    const auto container = groups_of(keeper);
    sys::GroupPlaces places;
    constexpr auto freezer = sys::index(sys::Controller::Freezer);
    if (!container.v2.empty() && sys::may_write(container.v2))
        places.v2 = container.v2;
    else if (!container.v1[freezer].empty() && sys::may_write(container.v1[freezer]))
        places.v1[freezer] = container.v1[freezer];
    if (places.empty()) return std::nullopt;
    places = places.below(kName);
    const std::string& path = places.v2.empty() ? places.v1[freezer] : places.v2;
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return std::nullopt;
    auto all = sys::SandboxGroup::open(places);
    if (!all) return std::nullopt;
    return ExecGroups(std::move(places), container, *std::move(all));
}

Result<sys::SandboxGroup> ExecGroups::make(const std::string& exec) const
{
    BERTH_TRY(auto group, sys::SandboxGroup::create(places_.below(exec), {}));
    group.release();
    return group;
}

Result<sys::SandboxGroup> ExecGroups::open(const std::string& exec) const
{
    return sys::SandboxGroup::open(places_.below(exec));
}

Result<std::vector<UniqueFd>> ExecGroups::births(const std::string& exec) const
{
    // The engine's filter answers clone3 with ENOSYS, so nobody is born in a group of v2: children enter
    // it. The kernel asks what the opener of the file may, not what the writer may.
    const auto places = places_.below(exec);
    std::vector<std::string> files;
    if (!places.v2.empty()) files.push_back(places.v2 + "/cgroup.procs");
    for (const auto& path : places.distinct_v1()) files.push_back(path + "/tasks");
    std::vector<UniqueFd> out;
    for (const auto& file : files) {
        out.emplace_back(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
        if (!out.back()) return fail_errno("opening {}", file);
    }
    return out;
}

bool keeper_frozen(pid_t keeper)
{
    const auto all = groups_of(keeper);
    constexpr auto freezer = sys::index(sys::Controller::Freezer);
    sys::GroupPlaces places;
    if (!all.v1[freezer].empty())
        places.v1[freezer] = all.v1[freezer];
    else
        places.v2 = all.v2;
    const auto group = places.empty() ? fail(Code::NotFound, "no group") : sys::SandboxGroup::open(places);
    return group && group->frozen().value_or(false);
}

Result<std::vector<UniqueFd>> container_tasks(pid_t keeper)
{
    BERTH_TRY(const auto own, read_file(fmt::format("/proc/{}/cgroup", keeper)));
    std::vector<UniqueFd> out;
    for (const auto& line : split(own, '\n')) { // 4:memory:/docker/…
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        // That of v2 and the freezer's are entered by the group of the exec, which lies in them.
        if (controllers.empty() || controllers.starts_with("name=") || controllers == "freezer" ||
            path == "/")
            continue;
        auto names = split(controllers, ',');
        names.push_back(controllers);
        UniqueFd tasks;
        for (const auto& name : names) {
            if (!tasks)
                tasks.reset(::open(fmt::format("/sys/fs/cgroup/{}{}/tasks", name, path).c_str(),
                                   O_WRONLY | O_CLOEXEC));
        }
        if (!tasks) return fail_errno("entering the {} group of the container", controllers);
        out.push_back(std::move(tasks));
    }
    return out;
}

void ExecGroups::forget(const std::string& exec) const noexcept
{
    const auto places = places_.below(exec);
    if (!places.v2.empty()) ::rmdir(places.v2.c_str());
    for (const auto& path : places.distinct_v1()) ::rmdir(path.c_str());
}

ExecGroups::Strikes ExecGroups::strikes() const
{
    Strikes out;
    const auto limits = sys::SandboxGroup::open(container_);
    if (!limits) return out;
    out.memory = limits->oom_kills().value_or(0);
    out.processes = limits->pids_max_events().value_or(0);
    return out;
}

} // namespace berth::docker
