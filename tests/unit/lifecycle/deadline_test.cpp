#include "place.hpp"

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

} // namespace
} // namespace berth
