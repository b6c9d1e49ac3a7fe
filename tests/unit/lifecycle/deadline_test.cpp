#include "place.hpp"

#include "store/sqlite/connection.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::Field;
using testing::IsEmpty;

class Collecting : public LifecycleTest {
protected:
    static GcReport must_collect(Process& process, GcWish wish = {})
    {
        auto report = run_task(process.lifecycle->collect(wish));
        EXPECT_TRUE(report) << report.error().line();
        return report ? *std::move(report) : GcReport{};
    }
};

/// A command that its sandbox runs, with a timeout, and whoever minds it is gone.
class Overdue : public Collecting {
protected:
    static constexpr const char* kExec = "exec_01jd7f3k2m0000000000000000";

    Acquired start(Process& one)
    {
        auto made = must(run_task(one.lifecycle->acquire(wish("demo"))));
        ExecSpec exec;
        exec.id = kExec;
        exec.argv = {"sleep", "1000"};
        exec.timeout = 60s;
        EXPECT_TRUE(run_task(one.lifecycle->exec(made.record, exec)));
        world_->execs[made.record.native] = {{.id = kExec, .running = true, .status = {}, .events = 1}};
        return made;
    }
    static ExecRecord exec_of(Process& one, const Acquired& made)
    {
        return one.store->execs(made.record.id(), false)->front();
    }
};

TEST_F(Overdue, ACommandIsKilledByWhoeverSweeps)
{
    auto one = process();
    const auto made = start(*one);
    clock_.time += 59s;
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
    clock_.time += 10s;
    const bool over = false;
    const auto swept = run_task(one->lifecycle->sweep(Sweep::Deadlines, over));
    EXPECT_THAT(swept->actions, Contains(Field(&GcAction::object, kExec)));
    EXPECT_EQ(exec_of(*one, made).outcome, "timed out, signal 9");
    EXPECT_THAT(must_collect(*one).actions, IsEmpty()) << "once";
}

TEST_F(Overdue, TheTimeOfAPauseDoesNotCount)
{
    auto one = process();
    const auto made = start(*one);
    auto& instance = world_->instances.at(made.record.native);
    instance.state = State::Paused;
    instance.paused = 70s;
    clock_.time += 70s;
    must_collect(*one);
    EXPECT_TRUE(world_->execs[made.record.native][0].running);
    instance.state = State::Running;
    clock_.time += 50s;
    must_collect(*one);
    EXPECT_TRUE(world_->execs[made.record.native][0].running);
    clock_.time += 20s;
    must_collect(*one);
    EXPECT_EQ(exec_of(*one, made).outcome, "timed out, signal 9");
}

TEST_F(Overdue, OneThatEndedByItselfDidNotTimeOut)
{
    auto one = process();
    const auto made = start(*one);
    auto& exec = world_->execs[made.record.native][0];
    exec.running = false;
    exec.status = ExitStatus::from_wait(0);
    clock_.time += 70s;
    must_collect(*one);
    EXPECT_EQ(exec_of(*one, made).outcome, "exit 0");
}

TEST_F(Overdue, OneThatWasKilledBeforeItsTimeDidNotTimeOut)
{
    auto one = process();
    const auto made = start(*one);
    world_->execs[made.record.native][0] = {
        .id = kExec, .running = false, .status = ExitStatus::from_wait(SIGKILL), .events = 3};
    clock_.time += 70s; // and nobody has recorded its end
    must_collect(*one);
    EXPECT_EQ(exec_of(*one, made).outcome, "signal 9");
}

TEST_F(Overdue, WhoeverRecordsTheEndSaysWhyItCame)
{
    auto one = process();
    const auto made = start(*one);
    auto exec = exec_of(*one, made);
    exec.overdue = true; // and then its killer was killed
    ASSERT_TRUE(one->store->note_exec(exec));
    world_->execs[made.record.native][0] = {
        .id = kExec, .running = false, .status = ExitStatus::from_wait(SIGKILL), .events = 3};
    ASSERT_TRUE(run_task(one->lifecycle->settle_execs(made.record)));
    EXPECT_EQ(exec_of(*one, made).outcome, "timed out, signal 9");
}

TEST_F(Overdue, OneWhoseStarterWasKilledBeforeItBeganDoesNotRunForEver)
{
    auto one = process();
    const auto made = start(*one);
    world_->execs[made.record.native][0].events = 0;
    clock_.time += 20s;
    world_->starters_live = false;
    EXPECT_EQ(run_task(one->lifecycle->settle_execs(made.record))->size(), 1u) << "it may be about to begin";
    clock_.time += 20s;
    world_->starters_live = true;
    EXPECT_EQ(run_task(one->lifecycle->settle_execs(made.record))->size(), 1u) << "a slow one is waited for";
    world_->starters_live = false;
    EXPECT_THAT(*run_task(one->lifecycle->settle_execs(made.record)), IsEmpty());
    EXPECT_EQ(exec_of(*one, made).outcome, "unknown");
}

TEST_F(Overdue, AnOutageIsToldAndTriedAgain)
{
    auto one = process();
    const auto made = start(*one);
    clock_.time += 70s;
    world_->outage = true;
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::failed, testing::Not(IsEmpty()))));
    world_->outage = false;
    must_collect(*one);
    EXPECT_EQ(exec_of(*one, made).outcome, "timed out, signal 9");
}

/// Sandboxes that are no more, and what is told of them.
class Dead : public Collecting {
protected:
    std::string destroyed(Process& one, const std::string& key)
    {
        const auto made = must(run_task(one.lifecycle->acquire(wish(key))));
        EXPECT_TRUE(run_task(one.lifecycle->destroy(key)));
        return made.record.id();
    }
    static std::size_t events_of(Process& one, const std::string& id)
    {
        return one.store->ledger({.sandbox = id})->size();
    }
};

TEST_F(Dead, ASweepDoesNotReadThem)
{
    auto one = process();
    const auto id = destroyed(*one, "demo");
    {
        // Unreadable, so that whoever reads one says so.
        auto db = store::Connection::open(data_ + "/store.db");
        ASSERT_TRUE(db->execute("UPDATE sandbox SET spec='{'"));
        ASSERT_TRUE(db->execute(
            "CREATE TEMP TABLE dead AS SELECT * FROM sandbox;"
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<10000) INSERT INTO sandbox "
            "SELECT printf('sbx_%026d', i), version, key, name, backend, native, state, live, generation, "
            "spec, "
            "spec_hash, snapshot, superseded_by, created, last_used, idle, on_idle, lifetime, failure, "
            "changed, "
            "due FROM n, dead"));
    }
    ASSERT_EQ(one->store->list({.with_dead = true, .limit = 20'000})->size(), 10'000u) << "a page at most";
    must(run_task(one->lifecycle->acquire(wish("living"))));
    const bool over = false;
    EXPECT_THAT(run_task(one->lifecycle->sweep(Sweep::All, over))->actions, IsEmpty());
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
}

TEST_F(Dead, AreForgottenAfterAMonth)
{
    auto one = process();
    destroyed(*one, "first"); // with it the ledger begins
    const auto old = destroyed(*one, "old");
    ASSERT_TRUE(one->store->append({{.sandbox = old, .type = "berth.policy_proved"}}));
    clock_.time += 24h * 29;
    const auto young = destroyed(*one, "young");
    EXPECT_THAT(must_collect(*one).actions, IsEmpty());
    clock_.time += 25h;
    EXPECT_THAT(must_collect(*one, {.dry_run = true}).actions, Contains(Field(&GcAction::what, "forget")));
    EXPECT_TRUE(*one->store->find(old));
    EXPECT_THAT(must_collect(*one).actions, Contains(Field(&GcAction::what, "forget")));
    EXPECT_FALSE(*one->store->find(old));
    EXPECT_EQ(events_of(*one, old), 1u) << "a receipt outlives its sandbox";
    EXPECT_EQ(one->store->ledger({.limit = 1})->front().sequence, 1u) << "how old the store is";
    EXPECT_TRUE(*one->store->find(young));
    EXPECT_GT(events_of(*one, young), 0u);
    EXPECT_THAT(must_collect(*one).actions, IsEmpty()) << "once";
}

TEST_F(Dead, WhatASnapshotIsOfStays)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    ASSERT_TRUE(run_task(one->lifecycle->snapshot("demo", {})));
    ASSERT_TRUE(run_task(one->lifecycle->destroy("demo")));
    clock_.time += 24h * 400;
    must_collect(*one);
    EXPECT_TRUE(*one->store->find(made.record.id()));
}

TEST_F(Dead, AServerForgetsThemToo)
{
    auto one = process();
    const auto id = destroyed(*one, "demo");
    clock_.time += 24h * 31;
    const bool over = false;
    EXPECT_THAT(run_task(one->lifecycle->sweep(Sweep::Deadlines, over))->actions, IsEmpty());
    EXPECT_THAT(run_task(one->lifecycle->sweep(Sweep::All, over))->actions,
                Contains(Field(&GcAction::what, "forget")));
    EXPECT_FALSE(*one->store->find(id));
}

} // namespace
} // namespace berth
