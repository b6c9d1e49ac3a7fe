#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "backend/docker/attach.hpp"
#include "backend/docker/await_keeper.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/life.hpp"
#include "backend/docker/mounts.hpp"
#include "backend/docker/own_container.hpp"
#include "backend/docker/sandbox.hpp"
#include "backend/docker/start_again.hpp"
#include "base/hooks.hpp"
#include "base/log.hpp"
#include "keeping/await_execs.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/pause.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;
using keeping::KeeperClient;
using keeping::Turn;

constexpr std::chrono::milliseconds kRecordPatience = 5s;
constexpr std::chrono::milliseconds kStrayPatience = 300ms;

using keeping::all_past;
using keeping::await_execs;

/// Each command gets its true end into its log, by the keeper, before the keeper itself ends.
Status end_execs(int directory, FoundKeeper& found, std::chrono::milliseconds grace)
{
    auto groups = ExecGroups::of(found.instance.pid);
    if (groups) {
        // What is frozen takes no signal and, in v1, does not even die.
        if (!keeping::end_pause(directory, groups->all())) (void)groups->all().thaw();
        ::unlinkat(directory, "paused", 0);
    }
    BERTH_TRY(auto items, found.client.list());
    if (all_past(items, keeper::State::Closed)) return {};
    for (const auto& item : items)
        if (item.state < keeper::State::Exited)
            (void)found.client.signal(item.exec, SIGTERM, keeper::Scope::Group);
    hooks::kill_point("docker: execs told");
    BERTH_TRY(items, await_execs(found.client, keeper::State::Exited, grace));
    if (groups)
        BERTH_CHECK(groups->all().kill_all());
    else
        for (const auto& item : items)
            if (item.state < keeper::State::Closed)
                (void)found.client.signal(item.exec, SIGKILL, keeper::Scope::Group);
    BERTH_TRY(items,
              await_execs(found.client, keeper::State::Closed, groups ? kRecordPatience : kStrayPatience));
    return {};
}

/// A living keeper answers for those it started itself.
Result<bool> known_to_keeper(const Where& where, int directory, const std::string& native,
                             const std::string& exec)
{
    BERTH_TRY(const auto number, keeping::keeper_id(exec));
    auto found = find_keeper(directory, where.engine, native);
    if (!found && (found.error().code == Code::Conflict || found.error().code == Code::NotFound))
        return false;
    if (!found) return std::unexpected(std::move(found).error());
    BERTH_TRY(const auto items, found->client.list());
    return std::ranges::any_of(items, [&](const auto& item) { return item.exec == number; });
}

/// By their group, the keeper awake.
bool paused_by_us(int directory, const Instance& instance)
{
    const auto groups = ExecGroups::of(instance.pid);
    if (!groups || keeper_frozen(instance.pid)) return false;
    const auto paused = keeping::look_paused(directory, groups->all());
    return paused && paused->asked;
}

} // namespace

Status stop_instance(const Where& where, const std::string& native, std::chrono::milliseconds grace)
{
    auto directory = where.dirs.lock(native);
    if (!directory && directory.error().code == Code::NotFound) return {};
    if (!directory) return std::unexpected(std::move(directory).error());
    auto instance = read_instance(directory->get());
    if (!instance && instance.error().code == Code::NotFound) return {}; // nothing in it ever ran
    if (!instance) return std::unexpected(std::move(instance).error());
    if (!instance->owned)
        return fail(Code::Denied, "container {} is somebody else's: it is not stopped by us", native);
    BERTH_CHECK(same_engine(where.engine, *instance));
    auto container = inspect_container(where.engine, instance->container);
    if (!container && container.error().code == Code::NotFound) return {};
    if (!container) return std::unexpected(std::move(container).error());
    if (container->paused)
        BERTH_CHECK(where.engine.post(fmt::format("/containers/{}/unpause", container->id)));
    if (container->running) {
        const auto turn = Turn::take(directory->get(), Turn::Kind::Freeze); // no command starts any more
        auto keeper = find_keeper(directory->get(), where.engine, native);
        Status ended =
            keeper ? end_execs(directory->get(), *keeper, grace) : Status(std::unexpected(keeper.error()));
        if (!ended)
            log::warn(
                "a container does not stop in good order: it is killed",
                {{.name = "sandbox", .value = native}, {.name = "error", .value = ended.error().line()}});
        // Nothing but the keeper is left, and it has nothing to say farewell to; an adopted one may have
        // processes that are not the keeper's. Not running already is fine.
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(grace).count();
        auto killed = where.engine.post(
            instance->inside.empty() ? fmt::format("/containers/{}/kill", container->id)
                                     : fmt::format("/containers/{}/stop?t={}", container->id, seconds));
        if (!killed && killed.error().code != Code::Conflict) return killed;
        // "Killed" may be told a moment before the engine knows it as ended.
        BERTH_CHECK(where.engine.post(fmt::format("/containers/{}/wait", container->id)));
        hooks::kill_point("docker: container stopped");
    }
    return keeping::settle_logs(native, directory->get());
}

Result<Started> start_instance(const Where& where, const std::string& native)
{
    BERTH_TRY(const auto directory, where.dirs.lock(native));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    BERTH_CHECK(same_engine(where.engine, instance));
    auto container = inspect_container(where.engine, instance.container);
    if (!container && container.error().code == Code::NotFound)
        return fail(Code::NotFound, "the container of {} is gone", native);
    if (!container) return std::unexpected(std::move(container).error());
    Started started;
    if (container->running) {
        auto keeper = find_keeper(directory.get(), where.engine, native);
        if (keeper && keeper->client.ping()) return started;
        if (!keeper && keeper.error().code == Code::Denied) return std::unexpected(std::move(keeper).error());
        return fail(Code::Unavailable, "the keeper of {} runs and does not answer", native);
    }
    if (!instance.owned)
        return fail(Code::Denied, "container {} is somebody else's: it is not started by us", native);
    auto pins = check_mounts(where, instance.spec, instance.pins);
    if (!pins) return std::unexpected(std::move(pins).error().while_doing("starting " + native));
    instance.pins = *std::move(pins);
    BERTH_CHECK(keeping::settle_logs(native, directory.get()));
    ::unlinkat(directory.get(), "in/sock", 0);
    ::unlinkat(directory.get(), "paused", 0);
    if (auto done = start_again(where, directory.get(), native, instance); !done)
        return std::unexpected(std::move(done).error().while_doing("starting " + native));
    hooks::kill_point("docker: container started again");
    auto ready = instance.inside.empty() ? await_keeper(directory.get(), where.engine, instance)
                                         : insert_keeper(where.engine, directory.get(), instance);
    // Nothing has run in it yet, and nothing will.
    if (!ready && ready.error().code == Code::Denied)
        (void)where.engine.post(fmt::format("/containers/{}/kill", instance.container));
    if (!ready) return std::unexpected(std::move(ready).error().while_doing("starting " + native));
    if (instance.inside.empty()) BERTH_CHECK(write_instance(directory.get(), instance));
    return started;
}

Status unpause_instance(const Where& where, const std::string& native)
{
    BERTH_TRY(const auto directory, where.dirs.open(native, 0));
    BERTH_TRY(const auto instance, read_instance(directory.get()));
    const auto container = inspect_container(where.engine, instance.container);
    // Ours was made by the kernel and ends by it: an engine that is not there has no part in it.
    if (!container && container.error().code == Code::Unavailable && paused_by_us(directory.get(), instance))
        return {};
    if (!container) return std::unexpected(container.error());
    if (!container->paused) return {};
    return where.engine.post(fmt::format("/containers/{}/unpause", container->id));
}

Status settle_log(const Where& where, const std::string& native, const std::string& exec)
{
    BERTH_TRY(const auto directory, where.dirs.open(native, 0));
    BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
    BERTH_TRY(const bool closed, log.closed());
    if (closed) {
        BERTH_CHECK(log.sync());
        return keeping::trim_logs_after(directory.get(), exec);
    }
    if (const auto known = known_to_keeper(where, directory.get(), native, exec); known && *known)
        return log.sync();
    // Nobody changes the instance and nobody starts a command in it: now the answer stays true.
    BERTH_TRY(const auto locked, where.dirs.lock(native));
    BERTH_TRY(const auto turn, Turn::take(locked.get(), Turn::Kind::Freeze));
    BERTH_TRY(const bool known, known_to_keeper(where, locked.get(), native, exec));
    if (!known) BERTH_CHECK(keeping::finish_log(locked.get(), exec));
    return log.sync();
}

} // namespace berth::docker
