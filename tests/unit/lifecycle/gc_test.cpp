#include "place.hpp"

#include "lifecycle/client.hpp"
#include "store/sqlite/connection.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::Field;
using testing::IsEmpty;

class Gc : public LifecycleTest {
protected:
    static AcquireRequest idle_wish(OnIdle action)
    {
        auto out = wish("demo");
        out.retention = {.idle = 60s, .on_idle = action, .lifetime = {}};
        return out;
    }
    static GcReport must_collect(Process& process, GcWish wish = {})
    {
        auto report = run_task(process.lifecycle->collect(wish));
        EXPECT_TRUE(report) << report.error().line();
        return report ? *std::move(report) : GcReport{};
    }
};

TEST_F(Gc, StopsWhatIsIdleAndKeepsItsFiles)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Stop))));
    clock_.time += 59s;
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
    clock_.time += 2s;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "stop")));
    EXPECT_EQ(world_->instances.at(made.record.native).state, State::Stopped);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->state, State::Stopped);
    EXPECT_EQ(told(*one, "berth.sandbox_idle_stopped"), 1u);
    EXPECT_THAT(must_collect(*one).actions, IsEmpty()) << "once";
}

TEST_F(Gc, ADryRunChangesNothing)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Destroy))));
    clock_.time += 2min;
    EXPECT_THAT(must_collect(*one, {.dry_run = true}).actions, Contains(Field(&GcAction::what, "destroy")));
    EXPECT_TRUE(world_->instances.contains(made.record.native));
}

TEST_F(Gc, ARunningExecPinsIt)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Destroy))));
    ExecSpec exec;
    exec.id = "exec_01jd7f3k2m0000000000000000";
    exec.argv = {"sleep", "1000"};
    ASSERT_TRUE(run_task(one->lifecycle->exec(made.record, exec)));
    world_->execs[made.record.native] = {{.id = exec.id, .running = true, .status = {}, .events = 1}};
    clock_.time += 10min;
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
    world_->execs[made.record.native][0].running = false;
    clock_.time += 10min;
    must_collect(*one); // sees the end
    EXPECT_EQ(one->store->execs(made.record.id(), false)->front().outcome, "unknown")
        << "nobody saw a status";
    clock_.time += 10min;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "destroy")));
}

TEST_F(Gc, ADryRunAnnouncesNothingThatACommandKeepsFromBeingDone)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Stop))));
    ExecSpec exec;
    exec.id = "exec_01jd7f3k2m0000000000000000";
    exec.argv = {"sleep", "1000"};
    ASSERT_TRUE(run_task(one->lifecycle->exec(made.record, exec)));
    for (const bool running : {true, false}) {
        world_->execs[made.record.native] = {{.id = exec.id, .running = running, .status = {}, .events = 1}};
        clock_.time += 10min;
        EXPECT_THAT(must_collect(*one, {.dry_run = true}).actions, IsEmpty()) << running;
        EXPECT_EQ(one->store->execs(made.record.id(), true)->size(), 1u) << "a dry run records no end";
        EXPECT_THAT(must_collect(*one).actions, IsEmpty()) << running;
    }
    clock_.time += 10min;
    for (const bool dry : {true, false})
        EXPECT_THAT(must_collect(*one, {.dry_run = dry}).actions, Contains(Field(&GcAction::what, "stop")));
}

TEST_F(Gc, ARunningExecPinsAThrowAwaySandboxOnlyWhileItsClientLives)
{
    auto one = process();
    auto request = idle_wish(OnIdle::Destroy);
    request.spec.labels[std::string(kClientLabel)] = "run";
    const auto made = must(run_task(one->lifecycle->acquire(std::move(request))));
    auto client = take_client(data_, made.record.id());
    ASSERT_TRUE(client && *client);
    ExecSpec exec;
    exec.id = "exec_01jd7f3k2m0000000000000000";
    exec.argv = {"sleep", "infinity"};
    ASSERT_TRUE(run_task(one->lifecycle->exec(made.record, exec)));
    world_->execs[made.record.native] = {{.id = exec.id, .running = true, .status = {}, .events = 1}};
    clock_.time += 10min;
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
    client->reset(); // as the kernel does for one that was killed
    clock_.time += 2min;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "destroy")));
    EXPECT_THAT(world_->instances, IsEmpty());
}

TEST_F(Gc, ADamagedRecordStopsNobodyAndIsRemovedByHand)
{
    auto one = process();
    const auto broken = must(run_task(one->lifecycle->acquire(wish("broken"))));
    {
        auto db = store::Connection::open(data_ + "/store.db");
        ASSERT_TRUE(db->execute("UPDATE sandbox SET spec = '{'"));
    }
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Stop))));
    clock_.time += 2min;
    const auto report = must_collect(*one);
    EXPECT_THAT(report.actions, Contains(Field(&GcAction::object, broken.record.id())));
    EXPECT_THAT(report.actions, Contains(Field(&GcAction::what, "stop")));
    EXPECT_TRUE(world_->instances.contains(broken.record.native)) << "it may be somebody's work";
    EXPECT_EQ(run_task(one->lifecycle->use(broken.record.id())).error().code, Code::Internal);
    ASSERT_TRUE(run_task(one->lifecycle->destroy(broken.record.id())));
    EXPECT_FALSE(world_->instances.contains(broken.record.native));
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
}

TEST_F(Gc, AClockThatStepsBackExpiresNothing)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Destroy))));
    clock_.time -= 24h;
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
    EXPECT_EQ(world_->instances.size(), 1u);
}

TEST_F(Gc, TakesASnapshotFirstWhenAskedTo)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::SnapshotThenStop))));
    clock_.time += 2min;
    must_collect(*one);
    EXPECT_EQ(one->store->snapshots(made.record.id())->size(), 1u);
    EXPECT_EQ(world_->instances.at(made.record.native).state, State::Stopped);
}

TEST_F(Gc, EndsALifetimeWhateverRuns)
{
    auto one = process();
    auto wanted = wish("demo");
    wanted.retention.lifetime = 1h;
    must(run_task(one->lifecycle->acquire(wanted)));
    clock_.time += 61min;
    must_collect(*one);
    EXPECT_TRUE(world_->instances.empty());
    EXPECT_EQ(run_task(one->lifecycle->find("demo")).error().code, Code::NotFound);
}

TEST_F(Gc, AnExpiredStoppedOneThatWasToBeDestroyedIsNotStartedAgain)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Destroy))));
    ASSERT_TRUE(run_task(one->lifecycle->stop("demo", 0ms)));
    clock_.time += 2min;
    const auto again = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Destroy))));
    EXPECT_EQ(again.tier, Tier::Fresh);
    EXPECT_NE(again.record.id(), made.record.id());
    EXPECT_FALSE(world_->instances.contains(made.record.native));
}

TEST_F(Gc, RemovesInstancesThatNoRecordNamesAndOnlyOurs)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto& id = made.record.id();
    World::Instance next = world_->instances.at(id);
    next.labels.generation = 2;
    world_->instances[id + ".2"] = next; // a restore died before it was recorded
    World::Instance foreign = next;
    foreign.spec.id = "sbx_01jd7f3k2m0000000000000009";
    foreign.labels.owner = "somebody else";
    world_->instances[foreign.spec.id] = foreign;
    must_collect(*one);
    EXPECT_TRUE(world_->instances.contains(id));
    EXPECT_FALSE(world_->instances.contains(id + ".2"));
    EXPECT_TRUE(world_->instances.contains(foreign.spec.id)) << "never touched";
}

TEST_F(Gc, RemovesWhatWasSupersededADayAgo)
{
    auto one = process();
    const auto old = must(run_task(one->lifecycle->acquire(wish("demo"))));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    must(run_task(one->lifecycle->acquire(other)));
    clock_.time += 23h;
    must_collect(*one);
    EXPECT_TRUE(world_->instances.contains(old.record.native));
    clock_.time += 2h;
    must_collect(*one);
    EXPECT_FALSE(world_->instances.contains(old.record.native));
}

TEST_F(Gc, LeavesWhatWasSupersededWhileACommandRunsInIt)
{
    auto one = process();
    const auto old = must(run_task(one->lifecycle->acquire(wish("demo"))));
    ExecSpec exec;
    exec.id = "exec_01jd7f3k2m0000000000000000";
    exec.argv = {"sleep", "1000"};
    ASSERT_TRUE(run_task(one->lifecycle->exec(old.record, exec)));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    must(run_task(one->lifecycle->acquire(other)));
    for (const bool running : {true, false}) {
        world_->execs[old.record.native] = {{.id = exec.id, .running = running, .status = {}, .events = 1}};
        clock_.time += 25h;
        for (const bool dry : {true, false})
            EXPECT_THAT(must_collect(*one, {.dry_run = dry}).actions, IsEmpty()) << running;
        EXPECT_TRUE(world_->instances.contains(old.record.native)) << running;
    }
    clock_.time += 23h;
    EXPECT_THAT(must_collect(*one).actions, IsEmpty()) << "it was used a day ago";
    clock_.time += 2h;
    for (const bool dry : {true, false})
        EXPECT_THAT(must_collect(*one, {.dry_run = dry}).actions,
                    Contains(Field(&GcAction::what, "destroy")));
    EXPECT_FALSE(world_->instances.contains(old.record.native));
}

TEST_F(Gc, WhatIsSupersededIsIdleAndOldAsAnyOther)
{
    auto one = process();
    auto first = idle_wish(OnIdle::Stop);
    first.retention.lifetime = 1h;
    const auto old = must(run_task(one->lifecycle->acquire(first)));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    const auto next = must(run_task(one->lifecycle->acquire(other)));
    clock_.time += 61s;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "stop")));
    EXPECT_EQ(world_->instances.at(old.record.native).state, State::Stopped);
    EXPECT_THAT(must_collect(*one).actions, IsEmpty()) << "once";
    clock_.time += 1h;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "destroy")));
    EXPECT_FALSE(world_->instances.contains(old.record.native));
    EXPECT_TRUE(world_->instances.contains(next.record.native));
}

TEST_F(Gc, AnExecThatBeganBeforeTheIdleTimeWasSetLeavesIt)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    ExecSpec exec;
    exec.id = "exec_01jd7f3k2m0000000000000000";
    exec.argv = {"sleep", "4"};
    ASSERT_TRUE(run_task(one->lifecycle->exec(made.record, exec)));
    must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Stop))));
    ASSERT_TRUE(run_task(one->lifecycle->finish_exec(made.record, exec.id, ExitStatus::from_wait(0), false)));
    clock_.time += 2min;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "stop")));
}

TEST_F(Gc, KeepsTheNewestSnapshots)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    std::vector<std::string> ids;
    for (int i = 0; i < 4; ++i) {
        clock_.time += 1h;
        ids.push_back(run_task(one->lifecycle->snapshot("demo", {}))->record.id);
    }
    must_collect(*one, {.keep_last = 3});
    EXPECT_EQ(one->store->snapshots(made.record.id())->size(), 3u);
    must_collect(*one, {.keep_within = std::chrono::minutes(90)});
    EXPECT_EQ(one->store->snapshots(made.record.id())->size(), 2u);
    must_collect(*one, {.keep_bytes = Bytes{20}});
    const auto left = *one->store->snapshots(made.record.id());
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left.front().id, ids.back());
    EXPECT_TRUE(std::filesystem::exists(data_ + "/snapshot/" + ids.back()));
    EXPECT_FALSE(std::filesystem::exists(data_ + "/snapshot/" + ids.front()));
}

TEST_F(Gc, KeepsASnapshotThatOneOfTheOptionsKeeps)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    for (int i = 0; i < 4; ++i) {
        clock_.time += 1h;
        ASSERT_TRUE(run_task(one->lifecycle->snapshot("demo", {})));
    }
    const auto left = [&](GcWish wish) {
        must_collect(*one, wish);
        return one->store->snapshots(made.record.id())->size();
    };
    EXPECT_EQ(left({.keep_last = 3, .keep_within = 1s}), 3u);
    EXPECT_EQ(left({.keep_last = 1, .keep_within = 90min}), 2u);
    clock_.time += 1h;
    EXPECT_EQ(left({.keep_within = 1s}), 1u) << "its sandbox may have to be made from it";
    ASSERT_TRUE(run_task(one->lifecycle->destroy("demo")));
    EXPECT_EQ(left({.keep_within = 1s}), 0u) << "nobody comes back to it";
}

TEST_F(Gc, WhatIsOlderThanASnapshotThatDoesNotFitGoesFirst)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    std::vector<std::string> ids;
    for (int i = 0; i < 3; ++i) {
        clock_.time += 1h;
        ids.push_back(run_task(one->lifecycle->snapshot("demo", {}))->record.id);
    }
    for (const auto& [id, bytes] : {std::pair(ids[0], 1u), std::pair(ids[1], 100u), std::pair(ids[2], 10u)})
        ASSERT_TRUE(one->store->size_snapshot(id, bytes));
    must_collect(*one, {.keep_bytes = Bytes{50}});
    auto left = *one->store->snapshots(made.record.id());
    ASSERT_EQ(left.size(), 1u) << "the small one is older than the large one";
    EXPECT_EQ(left.front().id, ids.back());
    must_collect(*one, {.keep_bytes = Bytes{5}});
    EXPECT_EQ(one->store->snapshots(made.record.id())->size(), 1u) << "the newest stays";
    must_collect(*one, {.keep_last = 0, .keep_bytes = Bytes{5}});
    EXPECT_EQ(one->store->snapshots(made.record.id())->size(), 0u);
}

TEST_F(Gc, CountsOnceWhatASnapshotTakesThatWasTakenWithoutCounting)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->counts = false;
    std::string newest;
    for (int i = 0; i < 3; ++i) {
        clock_.time += 1h;
        newest = run_task(one->lifecycle->snapshot("demo", {}))->record.id;
    }
    EXPECT_EQ(one->store->find_snapshot(newest)->value().bytes, 0u) << "nobody asked";
    world_->outage = true;
    EXPECT_EQ(run_task(one->lifecycle->snapshots({}))->front().bytes, 0u) << "listed all the same";
    world_->outage = false;
    EXPECT_EQ(must_collect(*one, {.dry_run = true, .keep_bytes = Bytes{40}}).actions.size(), 1u);
    EXPECT_EQ(one->store->find_snapshot(newest)->value().bytes, 18u);
    must_collect(*one, {.keep_bytes = Bytes{20}});
    const auto left = *run_task(one->lifecycle->snapshots(made.record.id()));
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left.front().id, newest);
    EXPECT_EQ(world_->weighs, 3u);
}

TEST_F(Gc, RemovesPayloadsOfSnapshotsThatWereNeverFinished)
{
    auto one = process();
    std::filesystem::create_directories(data_ + "/snapshot/snap_01jd7f3k2m0000000000000000.new");
    std::filesystem::create_directories(data_ + "/snapshot/what is this");
    must_collect(*one);
    EXPECT_FALSE(std::filesystem::exists(data_ + "/snapshot/snap_01jd7f3k2m0000000000000000.new"));
    EXPECT_TRUE(std::filesystem::exists(data_ + "/snapshot/what is this")) << "not ours to judge";
}

/// The store is lost and made anew from its copies: nobody's work goes with it.
TEST_F(Gc, AStoreThatWasLostTakesNothingWithIt)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo", "box"))));
    const auto snapshot = run_task(one->lifecycle->snapshot("demo", {.note = "work"}));
    ASSERT_TRUE(snapshot) << snapshot.error().line();
    const std::string owner = one->store->owner();
    one.reset();
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(data_ + "/store.db" + end);

    auto two = process();
    EXPECT_EQ(two->store->owner(), owner);
    EXPECT_THAT(must_collect(*two).actions, IsEmpty());
    const auto again = must(run_task(two->lifecycle->acquire(wish("demo", "box"))));
    EXPECT_EQ(again.record.id(), made.record.id());
    EXPECT_EQ(again.tier, Tier::Attached);
    EXPECT_EQ(run_task(two->lifecycle->find_snapshot(snapshot->record.id))->note, "work");
    EXPECT_EQ(told(*two, "berth.store_rebuilt"), 1u);
}

TEST_F(Gc, LeavesAloneWhatIsOlderThanTheStore)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto snapshot = run_task(one->lifecycle->snapshot("demo", {}));
    ASSERT_TRUE(snapshot) << snapshot.error().line();
    const std::string payload = data_ + "/snapshot/" + snapshot->record.id;
    one.reset();
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(data_ + "/store.db" + end);
    std::filesystem::remove_all(data_ + "/record"); // the copies, too

    clock_.time += 1h;
    auto two = process();
    must(run_task(two->lifecycle->acquire(wish("other"))));
    EXPECT_THAT(must_collect(*two).actions, Contains(Field(&GcAction::what, "leave alone")));
    EXPECT_TRUE(world_->instances.contains(made.record.native));
    EXPECT_TRUE(std::filesystem::exists(payload)) << "held for the grace";

    World::Instance late = world_->instances.at(made.record.native);
    late.spec.id = "sbx_01jd7f3k2m0000000000000009";
    late.labels.created = clock_.time + 1s;
    world_->instances[late.spec.id] = late;
    must_collect(*two);
    EXPECT_FALSE(world_->instances.contains(late.spec.id)) << "the store was there before it";

    must_collect(*two, {.grace = 0s, .orphans = true});
    EXPECT_FALSE(world_->instances.contains(made.record.native)) << "asked for";
    EXPECT_FALSE(std::filesystem::exists(payload));
}

TEST_F(Gc, WhatSomebodyDidSinceTheScanIsNotUndone)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    ASSERT_TRUE(run_task(one->lifecycle->stop("demo", 1s)));
    auto other = process();
    world_->after_scan = [&] {
        world_->after_scan = {};
        (void)must(run_task(other->lifecycle->use("demo")));
    };
    must_collect(*one);
    EXPECT_EQ(world_->instances.at(made.record.native).state, State::Running);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->state, State::Running) << "not stopped, as it was seen";
}

TEST_F(Gc, AServersSweepHoldsDeadlinesAndOnlyNowAndThenAsksTheBackend)
{
    auto one = process();
    const bool over = false;
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Stop))));
    const auto left = must(run_task(one->lifecycle->acquire(wish("other"))));
    clock_.time += 2min;
    const auto first = run_task(one->lifecycle->sweep(Sweep::Deadlines, over));
    ASSERT_TRUE(first);
    EXPECT_THAT(first->actions, Contains(Field(&GcAction::what, "stop")));
    EXPECT_EQ(world_->scans, 0u);
    world_->instances.at(left.record.native).state = State::Stopped; // behind everybody's back
    ASSERT_TRUE(run_task(one->lifecycle->sweep(Sweep::All, over)));
    EXPECT_EQ(world_->scans, 1u);
    EXPECT_EQ(run_task(one->lifecycle->find("other"))->state, State::Stopped);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->state, State::Stopped);
    EXPECT_EQ(told(*one, "berth.sandbox_idle_stopped"), 1u);
}

TEST_F(Gc, ASweepThatIsOverBeginsNothing)
{
    auto one = process();
    const bool over = true;
    (void)must(run_task(one->lifecycle->acquire(idle_wish(OnIdle::Destroy))));
    clock_.time += 2min;
    const auto report = run_task(one->lifecycle->sweep(Sweep::All, over));
    ASSERT_TRUE(report);
    EXPECT_THAT(report->actions, IsEmpty());
}

TEST_F(Gc, SaysWhichBackendCouldNotBeAsked)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->outage = true;
    const auto report = must_collect(*one);
    ASSERT_FALSE(report.actions.empty());
    EXPECT_FALSE(report.actions.front().failed.empty());
    EXPECT_EQ(world_->instances.size(), 1u);
}

} // namespace
} // namespace berth
