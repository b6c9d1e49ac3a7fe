// A command with walls of its own inside the container: those of a narrower policy, or of the sandbox's own
// where that has file rules, which an engine cannot hold. It is started from outside (keeping::start_narrow),
// so it inherits nothing of what the engine put around the keeper: namespaces and groups are entered,
// capabilities dropped, and the engine's filter is replaced by ours, which is the one of backend local.

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/docker/attach.hpp"
#include "backend/docker/mounts.hpp"
#include "backend/docker/sandbox.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "keeping/narrow.hpp"
#include "keeping/places.hpp"
#include "sys/caps.hpp"
#include "sys/landlock.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

std::string link_in(int root, const std::string& path)
{
    char to[256];
    const ssize_t n = ::readlinkat(root, path.c_str() + 1, &to[0], sizeof to);
    return n <= 0 || n == static_cast<ssize_t>(sizeof to) ? std::string{}
                                                          : std::string(&to[0], static_cast<std::size_t>(n));
}

/// What the program must be told to be confined as the container is. SELinux gives processes that enter a
/// container another label than its own ones: not known here, so refused.
Result<std::string> module_label(pid_t keeper)
{
    const auto text = read_file(fmt::format("/proc/{}/attr/current", keeper));
    if (!text) return std::string{}; // no such module
    std::string label = text->substr(0, text->find_first_of(std::string_view(" \n\0", 3)));
    if (label.empty() || label == "unconfined") return std::string{};
    if (label.find(':') != std::string::npos)
        return fail(Code::Unsupported,
                    "the container is labelled {} by SELinux, which a command with a policy of its own "
                    "cannot take on: give the policy to no command, or use --backend local",
                    printable(label, 80));
    return "exec " + label;
}

} // namespace

Status Sandbox::check_policy(const ExecSpec& spec, const keeping::Account& user) const
{
    if (!spec.policy && instance_.spec.policy.files.empty()) return {};
    // Only what descends from its first process comes to the keeper when its starter ends.
    if (!instance_.inside.empty())
        return fail(Code::Unsupported,
                    "a policy of a single command needs berth's keeper as the first process of the "
                    "container: this one was made by somebody else");
    if (!spec.policy) return {};
    const auto& outer = instance_.spec.policy;
    return policy::check_narrower(keeping::without_usual_limits(*spec.policy, outer.limits), outer,
                                  roots_of(instance_.spec, user));
}

Status Sandbox::start_in_walls(const ExecSpec& spec, const keeping::Account& user,
                               const keeping::KeeperExec& what, const keeping::ExecLog& log,
                               const keeping::ExecTime* time)
{
    if (!groups_)
        return fail(
            Code::Unsupported,
            "the control group of the container cannot be entered from here, so a command with walls of its "
            "own would be outside its limits");
    policy::Policy inner = spec.policy.value_or(instance_.spec.policy);
    if (spec.policy) inner = keeping::without_usual_limits(std::move(inner), instance_.spec.policy.limits);
    if (spec.policy) BERTH_CHECK(keeping::narrow_limits(inner, instance_.spec.policy.limits, user));
    // The engine counts the processes of the whole container.
    if (inner.limits.pids == instance_.spec.policy.limits.pids) inner.limits.pids.reset();
    BERTH_TRY(const auto top, root());
    std::vector<UniqueFd> sources;
    keeping::NarrowStart start;
    BERTH_TRY(start.site.files, policy::bind_files(inner, roots_of(instance_.spec, user)));
    const auto show = [&](const std::string& target, Mount::Mode mode, bool workspace) -> Status {
        BERTH_TRY(auto source, open_shown(top.get(), target));
        struct stat st{};
        if (::fstat(source.get(), &st) != 0) return fail_errno("looking at {}", printable(target));
        start.site.shown.push_back({.source = source.get(),
                                    .path = {},
                                    .target = target,
                                    .mode = mode,
                                    .file = !S_ISDIR(st.st_mode),
                                    .workspace = workspace});
        start.filter.refuse_set_id = start.filter.refuse_set_id || mode == Mount::Mode::ReadWrite;
        sources.push_back(std::move(source));
        return {};
    };
    for (const auto& mount : instance_.spec.mounts)
        BERTH_CHECK(show(mount.target, mount.mode, mount.workspace));
    for (const auto& volume : instance_.spec.volumes)
        BERTH_CHECK(
            show(volume.target, volume.writable ? Mount::Mode::ReadWrite : Mount::Mode::ReadOnly, false));
    start.site.link = [&top](const std::string& path) { return link_in(top.get(), path); };
    start.site.state = state_.get();
    BERTH_TRY(auto protects, keeping::ProtectedNames::hold(start.site));
    start.site.protected_paths = protects.paths();

    start.exec = &spec;
    start.log = &log;
    start.env = what.env;
    start.programs = keeping::candidates(spec.argv.front(), what.env);
    start.cwd = what.cwd;
    start.user = user;
    start.limits = inner.limits;
    start.landlock_abi = sys::landlock::abi();
    start.caps = sys::kKeptCaps;
    BERTH_TRY(start.label, module_label(instance_.pid));
    start.keeper_pidfd = pidfd_.get();
    start.namespaces =
        CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET;
    start.own_network =
        instance_.spec.policy.network != policy::Network::Off && inner.network == policy::Network::Off;
    // It comes from outside: whatever the engine limits, it limits by these.
    BERTH_TRY(const auto tasks, container_tasks(instance_.pid));
    start.tasks = what.groups;
    for (const auto& one : tasks) start.tasks.push_back(one.get());
    start.spawner = sys::Spawner::companion();
    start.time = time;
    start.locks = protects.locks();
    start.root = top.get();
    BERTH_TRY(const auto place, keeper_place(directory_.get(), instance_));
    BERTH_TRY(auto keeper, keeping::KeeperClient::connect(place.get(), "sock", kPatience));
    BERTH_CHECK(keeping::start_narrow(start, keeper));
    protects_.emplace(spec.id, std::move(protects));
    return {};
}

void Sandbox::forget(const std::string& exec)
{
    protects_.erase(exec);
    if (groups_) groups_->forget(exec);
}

} // namespace berth::docker
