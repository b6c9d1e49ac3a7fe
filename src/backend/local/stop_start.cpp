// The ends and new beginnings of an instance. Each of these functions works from the record and under the
// lock of the directory, whoever made the instance: no process of ours has a better claim to it than
// another.

#include "backend/local/stop_start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "backend/local/boot.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/layers.hpp"
#include "backend/local/look.hpp"
#include "backend/local/rest.hpp"
#include "backend/local/shared.hpp"
#include "base/hooks.hpp"
#include "base/log.hpp"
#include "keeping/await_execs.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/pause.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr std::chrono::milliseconds kRecordPatience = 5s;
constexpr std::chrono::milliseconds kStrayPatience = 300ms;

using keeping::all_past;
using keeping::await_execs;

/// Each command gets its true end into its log, by the keeper, before the keeper itself ends.
Status end_execs(int directory, const Instance& instance, std::chrono::milliseconds grace)
{
    std::optional<sys::KeptGroup> group;
    if (!instance.groups.empty()) {
        BERTH_TRY(auto opened, sys::KeptGroup::open(instance.groups));
        group.emplace(std::move(opened));
        // What is frozen takes no signal and, in v1, does not even die.
        if (!keeping::end_pause(directory, group->execs())) (void)group->execs().thaw();
        ::unlinkat(directory, "paused", 0);
    }
    BERTH_TRY(auto keeper, KeeperClient::connect(directory, "sock", kPatience));
    BERTH_TRY(auto items, keeper.list());
    if (all_past(items, keeper::State::Closed)) return {};
    for (const auto& item : items)
        if (item.state < keeper::State::Exited) (void)keeper.signal(item.exec, SIGTERM, keeper::Scope::Group);
    hooks::kill_point("stop: execs told");
    BERTH_TRY(items, await_execs(keeper, keeper::State::Exited, grace));
    // A group that was there when its parent was killed kills whatever is started in it later (Linux 6.14).
    if (group) BERTH_CHECK(keeping::remove_spares(directory));
    // Also what the commands left behind.
    if (group)
        BERTH_CHECK(group->execs().kill_all());
    else
        for (const auto& item : items)
            if (item.state < keeper::State::Closed)
                (void)keeper.signal(item.exec, SIGKILL, keeper::Scope::Group);
    hooks::kill_point("stop: execs killed");
    // Without groups somebody who left the command's process group may hold a pipe open.
    BERTH_TRY(items, await_execs(keeper, keeper::State::Closed, group ? kRecordPatience : kStrayPatience));
    return {};
}

/// The layers to start again on. What the host's own template hides depends on what the host has now, so
/// that one is looked up anew; every other is where it was.
const RootLayers* known_layers(const Instance& instance)
{
    return instance.spec.root.kind == Template::Kind::Host ? nullptr : &instance.layers;
}

} // namespace

Status stop_instance(const StateDir& state, const std::string& native, std::chrono::milliseconds grace)
{
    auto directory = lock_instance(state, native, kLockPatience + grace);
    if (!directory && directory.error().code == Code::NotFound) return {};
    if (!directory) return std::unexpected(std::move(directory).error());
    auto instance = read_instance(directory->get());
    if (!instance && instance.error().code == Code::NotFound) return {}; // nothing in it ever ran
    if (!instance) return std::unexpected(std::move(instance).error());
    BERTH_TRY(const auto pidfd, open_keeper(*instance));
    if (pidfd) {
        if (instance->in_memory)
            return fail(Code::Conflict, "the files of {} lie in memory and would be lost: destroy it instead",
                        native);
        const auto turn = Turn::take(directory->get(), Turn::Kind::Freeze); // no command starts any more
        if (auto ended = end_execs(directory->get(), *instance, grace); !ended)
            log::warn(
                "a sandbox does not stop in good order: it is killed",
                {{.name = "sandbox", .value = native}, {.name = "error", .value = ended.error().line()}});
        BERTH_CHECK(end_keeper(pidfd.get()));
        hooks::kill_point("stop: keeper ended");
    }
    if (auto rest = bring_to_rest(state, native, directory->get(), *instance); !rest)
        return std::unexpected(std::move(rest).error().while_doing("stopping " + native));
    return {};
}

Result<Started> start_instance(const StateDir& state, const std::string& native)
{
    BERTH_TRY(const auto directory, lock_instance(state, native));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    BERTH_TRY(const auto pidfd, open_keeper(instance));
    Started started;
    if (pidfd) {
        auto keeper = KeeperClient::connect(directory.get(), "sock", kPatience);
        if (keeper && keeper->ping()) return started;
        return fail(Code::Unavailable, "the keeper of {} lives and does not answer", native);
    }
    BERTH_CHECK(check_stack(state, instance.stack)); // the kernel would not say which of them is missing
    BERTH_TRY(const auto rest, bring_to_rest(state, native, directory.get(), instance));
    started.unsynced_since = rest.unsynced_since;
    BERTH_TRY(auto grounds,
              prepare_kept(state, instance.spec, {.known = known_layers(instance), .pins = &instance.pins}));
    if (grounds.prepared->plan.layers.root != instance.layers.root)
        started.notes.emplace_back("the host's programs have changed since it ran last");
    auto booted = boot(state, native, directory.get(), instance, std::move(grounds), Recorded::Yes);
    if (!booted) return std::unexpected(std::move(booted).error().while_doing("starting " + native));
    started.notes.insert(started.notes.end(), booted->prepared->notes.begin(), booted->prepared->notes.end());
    return started;
}

Status discard(const StateDir& state, const std::string& native)
{
    const auto open = [&](const char* name) {
        return UniqueFd(::openat(state.fd(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    };
    const auto all = open("sandbox");
    const auto trash = open("trash");
    if (!all || !trash) return fail_errno("opening the state directory");
    BERTH_CHECK(sys::move_to_trash(all.get(), native, trash.get()));
    hooks::kill_point("sandbox in the trash");
    return sys::empty_trash(trash.get());
}

namespace {

/// Those it would have if we had made it, whatever became of its record.
Status remove_usual_groups(const std::string& native)
{
    const auto tree = sys::CgroupTree::open();
    const auto places = tree.kept_places(native, {.memory = Bytes{0}, .pids = 0, .cpus = 0.0});
    if (places.empty()) return {};
    return sys::KeptGroup::remove(places);
}

/// Where the record is missing the maker was killed: its keeper, if it got that far, still answers, and
/// its groups have their usual places.
Status destroy_locked(const StateDir& state, const std::string& native, int directory)
{
    const auto instance = read_instance(directory);
    if (instance) {
        BERTH_TRY(const auto pidfd, open_keeper(*instance));
        // The frozen of v1 do not die, and the keeper's own end waits for theirs.
        if (pidfd && paused_now(directory).now)
            if (auto group = sys::KeptGroup::open(instance->groups)) (void)group->execs().kill_all();
        if (pidfd) BERTH_CHECK(end_keeper(pidfd.get()));
    }
    BERTH_CHECK(end_orphan(directory));
    hooks::kill_point("keeper killed");
    if (instance && !instance->groups.empty()) BERTH_CHECK(sys::KeptGroup::remove(instance->groups));
    BERTH_CHECK(remove_usual_groups(native));
    return discard(state, native);
}

} // namespace

Status destroy_instance(const StateDir& state, const std::string& native)
{
    // Held until it is gone: a maker that comes too late to lock it sees that it is not there any more.
    auto directory = lock_instance(state, native);
    // Somebody may have taken it away without us, and left its groups.
    if (!directory && directory.error().code == Code::NotFound) return remove_usual_groups(native);
    if (!directory) return std::unexpected(std::move(directory).error());
    return destroy_locked(state, native, directory->get());
}

Result<bool> remove_unfinished(const StateDir& state, const std::string& native)
{
    auto directory = lock_instance(state, native);
    if (!directory && directory.error().code == Code::NotFound) return true;
    if (!directory) return std::unexpected(std::move(directory).error());
    const auto instance = read_instance(directory->get());
    if (instance || instance.error().code != Code::NotFound) return false;
    BERTH_CHECK(destroy_locked(state, native, directory->get()));
    return true;
}

} // namespace berth::local
