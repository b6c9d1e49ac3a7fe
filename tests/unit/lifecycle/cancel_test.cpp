#include "lifecycle/cancel.hpp"

#include "place.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// A command that its sandbox runs.
class Cancel : public LifecycleTest {
protected:
    static constexpr const char* kExec = "exec_01jd7f3k2m0000000000000000";

    SandboxRecord start()
    {
        auto made = must(run_task(process_->lifecycle->acquire(wish("demo"))));
        ExecSpec exec;
        exec.id = kExec;
        exec.argv = {"sleep", "1000"};
        EXPECT_TRUE(run_task(process_->lifecycle->exec(made.record, exec)));
        world_->execs[made.record.native] = {{.id = kExec, .running = true, .status = {}, .events = 1}};
        return made.record;
    }
    Result<ExecRecord> cancel(const SandboxRecord& sandbox, std::chrono::milliseconds grace = 5s)
    {
        return run_task(cancel_exec(*process_->lifecycle, sandbox, recorded(sandbox), grace));
    }
    ExecRecord recorded(const SandboxRecord& sandbox)
    {
        return process_->store->execs(sandbox.id(), false)->front();
    }
    /// It ends on TERM, with this status.
    void ends_with(int status)
    {
        world_->on_signal = [status](ExecInfo& exec, int) {
            exec.running = false;
            exec.status = ExitStatus::from_wait(status);
        };
    }

    std::unique_ptr<Process> process_ = process();
};

TEST_F(Cancel, IsATermFirstAndItsOwnEndIsRecorded)
{
    const auto sandbox = start();
    ends_with(3 << 8);
    EXPECT_EQ(cancel(sandbox)->outcome, "exit 3");
    EXPECT_EQ(recorded(sandbox).outcome, "exit 3");
    EXPECT_THAT(world_->signals, ElementsAre(SIGTERM, SIGKILL)) << "the second to what it left";
}

TEST_F(Cancel, KillsWhatDoesNotListen)
{
    const auto sandbox = start();
    EXPECT_EQ(cancel(sandbox)->outcome, "signal 9");
    EXPECT_THAT(world_->signals, ElementsAre(SIGTERM, SIGKILL));
}

TEST_F(Cancel, WithoutGraceKillsAtOnce)
{
    const auto sandbox = start();
    ends_with(0);
    EXPECT_EQ(cancel(sandbox, 0ms)->outcome, "signal 9");
    EXPECT_THAT(world_->signals, ElementsAre(SIGKILL));
}

TEST_F(Cancel, OfAPausedSandboxWaitsForNoTerm)
{
    const auto sandbox = start();
    world_->instances.at(sandbox.native).state = State::Paused;
    EXPECT_EQ(cancel(sandbox)->outcome, "signal 9");
    EXPECT_THAT(world_->signals, ElementsAre(SIGKILL));
}

TEST_F(Cancel, OfOneThatHasEndedIsSuccessAndKeepsItsEnd)
{
    const auto sandbox = start();
    world_->execs[sandbox.native][0] = {
        .id = kExec, .running = false, .status = ExitStatus::from_wait(7 << 8), .events = 3};
    EXPECT_EQ(cancel(sandbox)->outcome, "exit 7") << "which nobody had recorded";
    EXPECT_EQ(cancel(sandbox)->outcome, "exit 7");
    EXPECT_THAT(world_->signals, ElementsAre(SIGKILL, SIGKILL)) << "what it left ends all the same";
}

TEST_F(Cancel, IsRecordedOnceHoweverManyAsk)
{
    const auto sandbox = start();
    const auto before = recorded(sandbox);
    ends_with(SIGTERM);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(run_task(cancel_exec(*process_->lifecycle, sandbox, before, 5s))->outcome, "signal 15");
    EXPECT_EQ(told(*process_, "sandbox_process_state_updated"), 1u);
}

TEST_F(Cancel, ThatCannotBeSentIsToldAndRecordsNothing)
{
    const auto sandbox = start();
    world_->on_signal = [&](ExecInfo&, int) { world_->outage = true; };
    const auto failed = cancel(sandbox);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::Unavailable);
    EXPECT_EQ(recorded(sandbox).outcome, "");
}

} // namespace
} // namespace berth
