#include "place.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;

class InUse : public LifecycleTest {
protected:
    static AcquireRequest idle_wish(std::chrono::seconds idle)
    {
        auto out = wish("demo");
        out.retention.idle = idle;
        return out;
    }
    WallTime last_used(Process& process) const
    {
        return run_task(process.lifecycle->find("demo"))->last_used;
    }
    bool collected(Process& process) const
    {
        const auto report = run_task(process.lifecycle->collect({}));
        return report && !report->actions.empty();
    }
};

TEST_F(InUse, WhoFindsItAgainUsesIt)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(idle_wish(60s))));
    for (const bool by_key : {true, false}) {
        clock_.time += 50s;
        const auto found = must(by_key ? run_task(one->lifecycle->acquire(wish("demo")))
                                       : run_task(one->lifecycle->use("demo")));
        EXPECT_EQ(found.tier, Tier::Attached);
        EXPECT_EQ(found.record.last_used, clock_.time);
        EXPECT_EQ(last_used(*one), clock_.time);
    }
    clock_.time += 50s;
    EXPECT_FALSE(collected(*one));
    clock_.time += 11s;
    EXPECT_TRUE(collected(*one));
}

TEST_F(InUse, AUseIsWrittenOnceASecondAndOftenEnoughForAShortIdleTime)
{
    auto one = process();
    const auto note = [&] { run_task(one->lifecycle->note_use(*run_task(one->lifecycle->find("demo")))); };
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(60s)))).record.last_used;
    clock_.time += 999ms;
    note();
    EXPECT_EQ(last_used(*one), made);
    clock_.time += 1ms;
    note();
    EXPECT_EQ(last_used(*one), clock_.time);
    must(run_task(one->lifecycle->acquire(idle_wish(1s))));
    clock_.time += 250ms;
    note();
    EXPECT_EQ(last_used(*one), clock_.time);
}

TEST_F(InUse, WhatTakesLongIsNotedWithinAQuarterOfTheIdleTime)
{
    auto one = process();
    const auto id = must(run_task(one->lifecycle->acquire(idle_wish(60s)))).record.id();
    for (int i = 0; i < 100; ++i) {
        clock_.time += run_task(one->lifecycle->still_in_use(id));
        EXPECT_LE(clock_.time - last_used(*one), 16s);
    }
    EXPECT_FALSE(collected(*one));
    must(run_task(one->lifecycle->acquire(idle_wish(2s))));
    EXPECT_EQ(run_task(one->lifecycle->still_in_use(id)), 500ms) << "its newest idle time counts";
}

TEST_F(InUse, OfOneThatIsDestroyedNothingIsNoted)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(idle_wish(60s)))).record;
    ASSERT_TRUE(run_task(one->lifecycle->destroy("demo")));
    clock_.time += 1h;
    run_task(one->lifecycle->still_in_use(made.id()));
    EXPECT_EQ((*one->store->find(made.id()))->last_used, made.last_used);
}

TEST_F(InUse, TheBackendIsToldNowAndThen)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(idle_wish(1h))));
    for (int i = 0; i < 5; ++i) {
        clock_.time += 2s;
        must(run_task(one->lifecycle->use("demo")));
    }
    EXPECT_EQ(world_->kept_alive, 1u) << "not in every quarter of an hour as often as it is used";
}

TEST_F(InUse, ABackendThatCannotBeAskedIsNoReasonToRefuseAUse)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(idle_wish(60s))));
    clock_.time += 30s;
    world_->outage = true;
    run_task(one->lifecycle->note_use(*run_task(one->lifecycle->find("demo"))));
    EXPECT_EQ(last_used(*one), clock_.time);
}

} // namespace
} // namespace berth
