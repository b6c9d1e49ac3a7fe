// What time does to sandboxes: stopped when idle, destroyed when overdue, never while they are used.

#include <algorithm>

#include "base/ids.hpp"
#include "conformance/check.hpp"
#include "conformance/world.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "keeping";

const std::string kKey = "conversation:conformance:kept";

struct Kept {
    std::unique_ptr<World> world;
    Acquired acquired;
};

Result<Kept> kept(Context& c, RetentionWish retention)
{
    Kept out;
    BERTH_TRY(out.world, World::make(c));
    auto request = out.world->request(kKey);
    request.retention = retention;
    BERTH_TRY(out.acquired, c.await(out.world->life().acquire(std::move(request))));
    return out;
}

constexpr RetentionWish kIdle{.idle = 60s};

Status idle_is_stopped(Context& c)
{
    BERTH_TRY(const auto k, kept(c, kIdle));
    BERTH_TRY(const auto path, c.at_home("kept"));
    BERTH_CHECK(c.write(World::handle(k.acquired), path, "work"));
    k.world->clock.by = 61s;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    BERTH_CHECK(in_state(*k.world, kKey, State::Stopped));
    BERTH_TRY(const auto told, k.world->told("berth.sandbox_idle_stopped"));
    BERTH_CHECK(same("idle stops told", told, std::size_t{1}));
    BERTH_TRY(const auto again, k.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Started));
    BERTH_TRY(const auto bytes, c.read(World::handle(again), path));
    return same("its file", bytes, "work");
}

Status not_before_its_time(Context& c)
{
    BERTH_TRY(const auto k, kept(c, kIdle));
    k.world->clock.by = 50s;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    return in_state(*k.world, kKey, State::Running);
}

Status clock_steps_back(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {.idle = 60s, .lifetime = 3600s}));
    k.world->clock.by = -24h;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    return in_state(*k.world, kKey, State::Running);
}

Status pinned(Context& c)
{
    BERTH_TRY(const auto k, kept(c, kIdle));
    const auto exec = Context::shell("sleep 300");
    BERTH_CHECK(step("a command", c.await(k.world->life().exec(k.acquired.record, exec))));
    k.world->clock.by = 1h;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    BERTH_CHECK(in_state(*k.world, kKey, State::Running));
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(World::handle(k.acquired), exec.id))));
    BERTH_TRY([[maybe_unused]] const auto status, c.ended(World::handle(k.acquired), exec.id));
    BERTH_TRY([[maybe_unused]] const auto soon, k.world->collect());
    BERTH_CHECK(in_state(*k.world, kKey, State::Running));
    k.world->clock.by = 3h;
    BERTH_TRY([[maybe_unused]] const auto settled,
              k.world->collect()); // learns that it ended: used until now
    BERTH_CHECK(in_state(*k.world, kKey, State::Running));
    k.world->clock.by = 5h;
    BERTH_TRY([[maybe_unused]] const auto late, k.world->collect());
    return in_state(*k.world, kKey, State::Stopped);
}

Status kept_alive(Context& c)
{
    BERTH_TRY(const auto k, kept(c, kIdle));
    k.world->clock.by = 50s;
    BERTH_CHECK(step("keeping it alive", c.await(k.world->life().keep_alive(kKey))));
    k.world->clock.by = 100s;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    return in_state(*k.world, kKey, State::Running);
}

Status idle_is_destroyed(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {.idle = 60s, .on_idle = OnIdle::Destroy}));
    k.world->clock.by = 61s;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    BERTH_CHECK(in_state(*k.world, k.acquired.record.id(), State::Destroyed));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(World::handle(k.acquired))));
    return same("the instance's health", found.health, Health::Gone);
}

Status idle_is_kept_first(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {.idle = 60s, .on_idle = OnIdle::SnapshotThenStop}));
    k.world->clock.by = 61s;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    BERTH_CHECK(in_state(*k.world, kKey, State::Stopped));
    BERTH_TRY(const auto told, k.world->told("sandbox_snapshotted"));
    return same("snapshots told", told, std::size_t{1});
}

Status lifetime(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {.lifetime = 60s}));
    BERTH_CHECK(
        step("a command", c.await(k.world->life().exec(k.acquired.record, Context::shell("sleep 300")))));
    k.world->clock.by = 61s;
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect());
    return in_state(*k.world, k.acquired.record.id(), State::Destroyed);
}

Status dry(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {.idle = 60s, .on_idle = OnIdle::Destroy}));
    k.world->clock.by = 61s;
    BERTH_TRY(const auto actions, k.world->collect({.dry_run = true}));
    BERTH_CHECK(expect(
        std::ranges::any_of(actions, [&](const GcAction& a) { return a.object == k.acquired.record.id(); }),
        "it is not told"));
    return in_state(*k.world, kKey, State::Running);
}

Status strangers(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    CreateRequest request(c.spec());
    request.labels.owner = "somebody-else";
    request.labels.key = "conversation:somebody:else";
    BERTH_TRY(const auto theirs, c.create(request));
    world->clock.by = 24h * 365;
    BERTH_TRY([[maybe_unused]] const auto actions, world->collect());
    BERTH_TRY(const auto said, c.output(theirs, "echo lives"));
    return same("an instance of somebody else", said, "lives\n");
}

Status leftovers(Context& c)
{
    // What is older than the store is left alone: the store tells of something before the instance is made.
    BERTH_TRY(const auto k, kept(c, {}));
    const auto& world = k.world;
    CreateRequest request(c.spec());
    request.labels.owner = world->life().store().owner();
    request.labels.key = "conversation:nobody:knows";
    request.labels.created = system_clock().now();
    BERTH_TRY(const auto left, c.create(request));
    BERTH_TRY([[maybe_unused]] const auto actions, world->collect());
    BERTH_TRY(const auto found, c.await(c.backend().inspect(left)));
    return same("the health of an instance no record knows", found.health, Health::Gone);
}

Status superseded(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {}));
    auto request = k.world->request(kKey);
    request.spec.env["CHANGED"] = "yes";
    BERTH_TRY(const auto next, c.await(k.world->life().acquire(request)));
    k.world->clock.by = 23h;
    BERTH_TRY([[maybe_unused]] const auto early, k.world->collect());
    BERTH_TRY(const auto kept_on, c.await(c.backend().inspect(World::handle(k.acquired))));
    BERTH_CHECK(same("its health before the grace is over", kept_on.health, Health::Healthy));
    k.world->clock.by = 25h;
    BERTH_TRY([[maybe_unused]] const auto late, k.world->collect());
    BERTH_TRY(const auto gone, c.await(c.backend().inspect(World::handle(k.acquired))));
    BERTH_CHECK(same("its health afterwards", gone.health, Health::Gone));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(World::handle(next))));
    return same("its successor's health", found.health, Health::Healthy);
}

Status few_snapshots(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {}));
    std::vector<std::string> taken;
    for (int i = 0; i < 3; ++i) {
        BERTH_TRY(const auto one, c.await(k.world->life().snapshot(kKey, {})));
        taken.push_back(one.record.id);
    }
    BERTH_TRY([[maybe_unused]] const auto actions, k.world->collect({.keep_last = 1}));
    BERTH_CHECK(refused("the oldest", c.await(k.world->life().find_snapshot(taken[0])), Code::NotFound));
    BERTH_TRY([[maybe_unused]] const auto newest, c.await(k.world->life().find_snapshot(taken[2])));
    BERTH_CHECK(k.world->lose(k.acquired));
    BERTH_TRY(const auto again, k.world->acquire(kKey));
    return came_by(again, Tier::Restored);
}

Status outage(Context& c)
{
    BERTH_TRY(const auto k, kept(c, {}));
    *k.world->outage = true;
    (void)c.await(k.world->life().collect({})); // says what it could not do, and does nothing rash
    *k.world->outage = false;
    return in_state(*k.world, kKey, State::Running);
}

} // namespace

std::vector<Check> keeping_checks()
{
    const std::vector<Need> stop{Operation::Stop};
    return {
        {kGroup, "an idle one is stopped, and starts again with its files", stop, idle_is_stopped},
        {kGroup, "it is not stopped before its time", {}, not_before_its_time},
        {kGroup, "a clock that steps back ends nothing", {}, clock_steps_back},
        {kGroup, "a running exec keeps it from being idle", stop, pinned},
        {kGroup, "keeping it alive counts as use", {}, kept_alive},
        {kGroup, "an idle one is destroyed where that is asked for", {}, idle_is_destroyed},
        {kGroup,
         "an idle one is kept as a snapshot first where that is asked for",
         {Operation::Stop, Operation::Snapshot},
         idle_is_kept_first},
        {kGroup, "at the end of its lifetime it is destroyed", {}, lifetime},
        {kGroup, "a dry run tells and does nothing", {}, dry},
        {kGroup, "an instance of another owner is left alone", {}, strangers},
        {kGroup, "an instance of ours that no record knows is removed", {}, leftovers},
        {kGroup, "a superseded one is removed when its grace is over", {}, superseded},
        {kGroup, "snapshots beyond the last few are removed", {Operation::Snapshot}, few_snapshots},
        {kGroup, "a backend out of reach loses nothing", {}, outage},
    };
}

} // namespace berth::conformance
