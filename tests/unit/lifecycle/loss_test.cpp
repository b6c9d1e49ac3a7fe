// What is lost is told as it is: which snapshot came back, which did not and why, how commands ended.

#include "place.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Loss : public LifecycleTest {
protected:
    std::string snapshot(Process& one)
    {
        clock_.time += 1min;
        const auto taken = run_task(one.lifecycle->snapshot("demo", {}));
        EXPECT_TRUE(taken) << taken.error().line();
        return taken ? taken->record.id : std::string{};
    }
    void damage(const std::string& id) const { std::filesystem::remove_all(data_ + "/snapshot/" + id); }
    static AcquireRequest whatever_happens()
    {
        auto out = wish("demo");
        out.on_loss = OnStateLoss::Fresh;
        return out;
    }
    /// One that the backend knows to have ended so, and nobody has recorded.
    void end_unseen(Process& one, const SandboxRecord& sandbox, int raw)
    {
        ExecSpec spec;
        spec.id = "exec_0000000000000000000000000a";
        spec.argv = {"true"};
        ASSERT_TRUE(run_task(one.lifecycle->exec(sandbox, spec)));
        world_->execs[sandbox.native] = {
            {.id = spec.id, .running = false, .status = ExitStatus::from_wait(raw), .events = 3}};
    }
    static std::string outcome(Process& one, const SandboxRecord& sandbox)
    {
        return one.store->execs(sandbox.id(), false)->front().outcome;
    }
};

TEST_F(Loss, OfTheNewestSnapshotTooIsAnErrorThatNamesAnOlderOne)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto older = snapshot(*one), newer = snapshot(*one);
    world_->instances.clear();
    damage(newer);
    const auto asked = run_task(one->lifecycle->acquire(wish("demo")));
    ASSERT_FALSE(asked);
    EXPECT_THAT(asked.error().line(), AllOf(HasSubstr(newer), HasSubstr("berth restore " + older)));
}

TEST_F(Loss, WhereFreshIsGoodEnoughTakesAnOlderSnapshotFirstAndSaysWhy)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto older = snapshot(*one), newer = snapshot(*one);
    world_->instances.clear();
    damage(newer);
    const auto again = must(run_task(one->lifecycle->acquire(whatever_happens())));
    EXPECT_EQ(again.tier, Tier::Restored);
    EXPECT_EQ(again.snapshot, older);
    EXPECT_EQ(again.record.id(), made.record.id());
    EXPECT_THAT(again.notes.front(), AllOf(HasSubstr(newer), HasSubstr("gone")));
}

TEST_F(Loss, OfEverySnapshotIsToldAsThatAndNotAsHavingHadNone)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto taken = snapshot(*one);
    world_->instances.clear();
    damage(taken);
    const auto again = must(run_task(one->lifecycle->acquire(whatever_happens())));
    EXPECT_EQ(again.tier, Tier::Fresh);
    EXPECT_THAT(again.notes.front(), AllOf(HasSubstr(taken), Not(HasSubstr("has no snapshot"))));
    EXPECT_EQ(told(*one, "berth.sandbox_restore_failed"), 1u);
    EXPECT_EQ(told(*one, "berth.sandbox_recovered"), 1u);
    EXPECT_THAT(run_task(one->lifecycle->find(made.record.id()))->failure, HasSubstr(taken));
}

TEST_F(Loss, AfterAStepBackGoesNoFurtherThanThat)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto wanted = snapshot(*one);
    snapshot(*one);
    ASSERT_TRUE(run_task(one->lifecycle->restore(wanted, {})));
    world_->instances.clear();
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(wish("demo")))).snapshot, wanted);
    const auto next = run_task(one->lifecycle->snapshot("demo", {}));
    ASSERT_TRUE(next);
    EXPECT_EQ(next->record.parent, wanted);
}

TEST_F(Loss, OfTheNewestSnapshotLeavesTheOneBeforeAsTheNewest)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto older = snapshot(*one), newer = snapshot(*one);
    ASSERT_TRUE(run_task(one->lifecycle->remove_snapshot(newer)));
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->latest_snapshot, older);
    ASSERT_TRUE(run_task(one->lifecycle->remove_snapshot(older)));
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->latest_snapshot, "");
}

TEST_F(Loss, WhoeverSeesItFirstTellsIt)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->instances.clear();
    const auto stopped = run_task(one->lifecycle->stop("demo", 0ms));
    ASSERT_TRUE(stopped) << "it does not run any more, as was asked";
    EXPECT_EQ(stopped->state, State::Lost);
    EXPECT_EQ(told(*one, "berth.sandbox_lost"), 1u);
}

TEST_F(Loss, OfASandboxThatIsDestroyedLosesNoEndOfACommand)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    end_unseen(*one, made.record, 7 << 8);
    ASSERT_TRUE(run_task(one->lifecycle->destroy("demo")));
    EXPECT_EQ(outcome(*one, made.record), "exit 7");
}

TEST_F(Loss, OfWhatARestoreReplacesLosesNoEndOfACommand)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto taken = snapshot(*one);
    end_unseen(*one, made.record, 7 << 8);
    ASSERT_TRUE(run_task(one->lifecycle->restore(taken, {})));
    EXPECT_EQ(outcome(*one, made.record), "exit 7");
}

} // namespace
} // namespace berth
