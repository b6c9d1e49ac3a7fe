#include <fcntl.h>

#include <csignal>
#include <thread>

#include <gmock/gmock.h>

#include "backend/local/shared.hpp"
#include "backend_place.hpp"
#include "keeping/pause.hpp"
#include "sys/cgroup.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class PauseTest : public BackendPlace {
protected:
    void SetUp() override
    {
        if (!backend_->capabilities().can(Operation::Pause)) {
            const auto tree = sys::CgroupTree::open();
            GTEST_SKIP() << "no freezer: " << tree.of(sys::Controller::Freezer).lack.remedy;
        }
    }

    static State state_of(const SandboxHandle& sandbox)
    {
        const auto found = run_task(backend_->inspect(sandbox));
        EXPECT_TRUE(found) << found.error().line();
        return found ? found->state : State::Lost;
    }
    static void pause(const SandboxHandle& sandbox)
    {
        const auto paused = run_task(backend_->pause(sandbox));
        ASSERT_TRUE(paused) << paused.error().line();
    }
    static void resume(const SandboxHandle& sandbox)
    {
        const auto resumed = run_task(backend_->resume(sandbox));
        ASSERT_TRUE(resumed) << resumed.error().line();
    }

    /// Events of an exec until there are `count`, or for as long as `time`.
    static std::uint64_t events(const SandboxHandle& sandbox, const std::string& exec, std::uint64_t from,
                                std::uint64_t count, std::chrono::milliseconds time)
    {
        const auto until = in(time);
        std::uint64_t seen = from;
        while (seen - from < count && system_clock().steady() < until) {
            const auto more = run_task(backend_->read_events(sandbox, exec, seen, until));
            EXPECT_TRUE(more) << more.error().line();
            if (!more || more->empty()) break;
            seen = more->back().sequence + 1;
        }
        return seen;
    }
};

/// Counts in memory and prints it, so that what it prints tells whether its memory was kept.
constexpr const char* kCounter = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.005; done";

TEST_F(PauseTest, StopsACountingLoopAndGoesOnWithItsMemory)
{
    const Made made;
    const ExecSpec counter = shell(kCounter);
    ASSERT_TRUE(run_task(backend_->exec(made.handle, counter)));
    ASSERT_GE(events(made.handle, counter.id, 0, 5, 20s), 5u);

    pause(made.handle);
    EXPECT_EQ(state_of(made.handle), State::Paused);
    const std::uint64_t still = events(made.handle, counter.id, 0, 100'000, 300ms);
    EXPECT_EQ(events(made.handle, counter.id, still, 1, 300ms), still) << "it went on";

    resume(made.handle);
    EXPECT_EQ(state_of(made.handle), State::Running);
    EXPECT_GE(events(made.handle, counter.id, still, 5, 20s), still + 5) << "the log goes on";
    ASSERT_TRUE(run_task(backend_->kill(made.handle, counter.id)));
    std::string out;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
    ASSERT_TRUE(run_task(backend_->follow(made.handle, counter, streams)));
    std::string expected;
    for (int n = 1; expected.size() < out.size(); ++n) expected += std::to_string(n) + "\n";
    EXPECT_EQ(out, expected.substr(0, out.size())) << "it counted from where it was";
}

TEST_F(PauseTest, StopsTheTimeThatTheKeeperHolds)
{
    const Made made;
    ExecSpec timed = shell("sleep 300 & exec setsid --wait sleep 300");
    timed.timeout = 2s;
    ASSERT_TRUE(run_task(backend_->exec(made.handle, timed)));
    pause(made.handle);
    // Nobody of ours follows it: only the keeper could end it.
    EXPECT_FALSE(*run_task(backend_->wait(made.handle, timed.id, in(2500ms)))) << "it was ended in a pause";
    resume(made.handle);
    const auto ended = run_task(backend_->wait(made.handle, timed.id, in(20s)));
    ASSERT_TRUE(ended && *ended);
    EXPECT_EQ((*ended)->status.signal(), SIGKILL);
    auto* const holder = dynamic_cast<HoldsTime*>(backend_.get());
    ASSERT_NE(holder, nullptr);
    EXPECT_TRUE(*run_task(holder->overdue(made.handle, timed.id)));
    const auto log = *run_task(backend_->read_events(made.handle, timed.id, 0, in(20s)));
    ASSERT_GE(log.size(), 2u);
    EXPECT_GE(log.back().time - log.front().time, 4400ms) << "the pause was counted";
    const auto found = run_task(backend_->inspect(made.handle));
    ASSERT_TRUE(found);
    EXPECT_GE(found->paused, 2500ms);
}

TEST_F(PauseTest, RefusesCommandsMeanwhileAndAnswersTheRest)
{
    const Made made;
    pause(made.handle);
    pause(made.handle); // again is success
    const auto refused = run_task(backend_->exec(made.handle, shell("true")));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Conflict);
    EXPECT_THAT(refused.error().message, HasSubstr("is paused: berth resume " + made.handle.sandbox));
    const auto found = run_task(backend_->inspect(made.handle));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->health, Health::Healthy) << "the keeper is not paused";
    EXPECT_TRUE(run_task(backend_->write_file(made.handle, {.path = "/tmp/f"}, "x", std::nullopt)));
    resume(made.handle);
    resume(made.handle);
    EXPECT_EQ(output_of(made.handle, "cat /tmp/f"), "x");
}

TEST_F(PauseTest, AnotherProcessSeesAndEndsIt)
{
    const Made made;
    pause(made.handle);
    auto other = LocalBackend::open({.state_path = dir_ + "/state", .pool = &*pool_});
    ASSERT_TRUE(other) << other.error().line();
    EXPECT_EQ(run_task((*other)->inspect(made.handle))->state, State::Paused);
    EXPECT_EQ(run_task((*other)->exec(made.handle, shell("true"))).error().code, Code::Conflict);
    ASSERT_TRUE(run_task((*other)->resume(made.handle)));
    EXPECT_EQ(output_of(made.handle, "echo on"), "on\n");
}

TEST_F(PauseTest, ManyTimesInARow)
{
    const Made made;
    const ExecSpec counter = shell(kCounter);
    ASSERT_TRUE(run_task(backend_->exec(made.handle, counter)));
    for (int i = 0; i < 50; ++i) {
        pause(made.handle);
        resume(made.handle);
    }
    const std::uint64_t seen = events(made.handle, counter.id, 0, 100'000, 200ms);
    EXPECT_GT(events(made.handle, counter.id, seen, 3, 20s), seen);
    ASSERT_TRUE(run_task(backend_->kill(made.handle, counter.id)));
}

TEST_F(PauseTest, CommandsThatStartMeanwhileNeverFreezeTheKeeper)
{
    const Made made;
    std::atomic<bool> enough = false;
    std::atomic<int> started = 0;
    std::thread starter([&] {
        while (!enough)
            if (run_task(backend_->exec(made.handle, shell("true")))) ++started;
    });
    for (int i = 0; i < 40; ++i) {
        const int before = started;
        for (const auto until = in(20s); started == before && system_clock().steady() < until;)
            std::this_thread::sleep_for(1ms);
        EXPECT_GT(started, before);
        pause(made.handle);
        EXPECT_EQ(run_task(backend_->inspect(made.handle))->health, Health::Healthy);
        resume(made.handle);
    }
    enough = true;
    starter.join();
}

/// At every moment one of them has its turn: without a queue nobody could freeze.
TEST_F(PauseTest, ManyWhoStartCommandsDoNotKeepItOut)
{
    const Made made;
    std::atomic<bool> enough = false;
    std::vector<std::jthread> starters;
    for (int i = 0; i < 6; ++i)
        starters.emplace_back([&] {
            const auto directory = UniqueFd(::open((dir_ + "/state/sandbox/" + made.handle.native).c_str(),
                                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            while (!enough) {
                const auto turn = Turn::take(directory.get(), Turn::Kind::Start);
                EXPECT_TRUE(turn) << turn.error().line();
                std::this_thread::sleep_for(2ms); // the start of a command
            }
        });
    for (int i = 0; i < 20 && !HasFatalFailure(); ++i) {
        pause(made.handle);
        resume(made.handle);
    }
    enough = true;
}

TEST_F(PauseTest, APausedCommandCanBeKilledAndTheRestStaysPaused)
{
    const Made made;
    const ExecSpec doomed = shell("sleep 1000 & sleep 1000");
    const ExecSpec counter = shell(kCounter);
    ASSERT_TRUE(run_task(backend_->exec(made.handle, doomed)));
    ASSERT_TRUE(run_task(backend_->exec(made.handle, counter)));
    pause(made.handle);
    const auto killed = run_task(backend_->kill(made.handle, doomed.id));
    ASSERT_TRUE(killed) << killed.error().line();
    const auto ended = run_task(backend_->wait(made.handle, doomed.id, in(20s)));
    ASSERT_TRUE(ended && *ended);
    EXPECT_EQ((*ended)->status.signal(), SIGKILL);
    EXPECT_EQ(state_of(made.handle), State::Paused);
    const std::uint64_t still = events(made.handle, counter.id, 0, 100'000, 200ms);
    EXPECT_EQ(events(made.handle, counter.id, still, 1, 200ms), still);
}

TEST_F(PauseTest, TimeoutsDoNotCountThePause)
{
    const Made made;
    ExecSpec slow = shell("sleep 1; echo done");
    slow.timeout = 2500ms;
    ASSERT_TRUE(run_task(backend_->exec(made.handle, slow)));
    std::thread pauser([&] {
        std::this_thread::sleep_for(200ms);
        pause(made.handle);
        std::this_thread::sleep_for(3s);
        resume(made.handle);
    });
    std::string out;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
    const auto outcome = run_task(backend_->follow(made.handle, slow, streams));
    pauser.join();
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_FALSE(outcome->timed_out);
    EXPECT_EQ(out, "done\n");
    EXPECT_GE(run_task(backend_->inspect(made.handle))->paused, 2900ms);

    ExecSpec endless = shell("sleep 1000");
    endless.timeout = 300ms;
    EXPECT_TRUE(run(made.handle, endless).outcome.timed_out) << "and what is not paused is timed as ever";
}

TEST_F(PauseTest, WhatAKilledProcessLeftFrozenIsPaused)
{
    const Made made;
    const auto place = StateDir::open(dir_ + "/state");
    ASSERT_TRUE(place);
    auto sandbox = Sandbox::open(*place, made.handle.sandbox);
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    {
        auto still = sandbox->hold_still();
        ASSERT_TRUE(still) << still.error().line();
        EXPECT_EQ(state_of(made.handle), State::Running) << "for a moment is not paused";
        still->stay(); // as if it had been killed here
    }
    EXPECT_EQ(state_of(made.handle), State::Paused);
    resume(made.handle);
    EXPECT_EQ(output_of(made.handle, "echo on"), "on\n");
    {
        const auto still = sandbox->hold_still();
        ASSERT_TRUE(still) << still.error().line();
    }
    EXPECT_EQ(output_of(made.handle, "echo on"), "on\n");
}

TEST_F(PauseTest, APausedSandboxIsDestroyed)
{
    const auto handle = run_task(backend_->create(spec()));
    ASSERT_TRUE(handle) << handle.error().line();
    ASSERT_TRUE(run_task(backend_->exec(*handle, shell("sleep 1000 & sleep 1000"))));
    pause(*handle);
    const auto gone = run_task(backend_->destroy(*handle));
    ASSERT_TRUE(gone) << gone.error().line();
    EXPECT_EQ(state_of(*handle), State::Lost);
}

class NoPauseTest : public BackendPlace {};

TEST_F(NoPauseTest, WithoutAFreezerItIsUnsupportedAndSaysTheRemedy)
{
    if (backend_->capabilities().can(Operation::Pause)) GTEST_SKIP() << "this machine can pause";
    const Made made;
    const auto paused = run_task(backend_->pause(made.handle));
    ASSERT_FALSE(paused);
    EXPECT_EQ(paused.error().code, Code::Unsupported);
    EXPECT_THAT(paused.error().message, HasSubstr("cannot be paused"));
    EXPECT_EQ(run_task(backend_->resume(made.handle)).error().code, Code::Unsupported);
}

} // namespace
} // namespace berth::local
