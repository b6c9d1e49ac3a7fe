#include "core/backend.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_backend.hpp"
#include "support/run_task.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExecEvent event(std::uint64_t sequence, ExecEvent::Kind kind, std::string bytes = {})
{
    ExecEvent out;
    out.sequence = sequence;
    out.kind = kind;
    out.bytes = std::move(bytes);
    return out;
}

ExecEvent exit_event(std::uint64_t sequence, int raw)
{
    ExecEvent out = event(sequence, ExecEvent::Kind::Exit);
    out.status = ExitStatus::from_wait(raw);
    return out;
}

TEST(Operation, HasAWordForEach)
{
    std::set<std::string_view> words;
    for (const auto operation : all_operations()) words.insert(to_string(operation));
    EXPECT_EQ(words.size(), 10u);
    EXPECT_FALSE(words.contains("unknown operation"));
}

template <class T> void expect_unsupported(const Result<T>& answer, const char* operation)
{
    ASSERT_FALSE(answer) << operation;
    EXPECT_EQ(answer.error().code, Code::Unsupported);
    EXPECT_THAT(answer.error().message, HasSubstr("fake"));
    EXPECT_THAT(answer.error().message, HasSubstr(operation));
}

TEST(Backend, RefusesWhatItDoesNotClaimNamingIt)
{
    FakeBackend backend;
    const SandboxHandle sandbox{.sandbox = "sbx_1", .native = "1"};
    expect_unsupported(run_task(backend.stop(sandbox, std::chrono::seconds(1))), "stop");
    expect_unsupported(run_task(backend.start(sandbox)), "stop");
    expect_unsupported(run_task(backend.pause(sandbox)), "pause");
    expect_unsupported(run_task(backend.resume(sandbox)), "pause");
    expect_unsupported(run_task(backend.snapshot(sandbox, {})), "snapshot");
    expect_unsupported(run_task(backend.attach("c0ffee")), "attach");
    expect_unsupported(run_task(backend.dial(sandbox, 80)), "ports");
    expect_unsupported(run_task(backend.watch(sandbox, "w", {}, SteadyTime{})), "watch");
}

TEST(BackendRun, CreatesRunsAndDestroys)
{
    FakeBackend backend;
    backend.events = {{event(0, ExecEvent::Kind::Start), event(1, ExecEvent::Kind::Stdout, "hi")},
                      {exit_event(2, 7 << 8), event(3, ExecEvent::Kind::Closed)}};
    backend.struck = {"killed: memory limit 64 MiB"};
    std::string out;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& e) { out += e.bytes; };
    const auto outcome = run_task(backend.run({}, {}, streams));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(outcome->status.code(), 7);
    EXPECT_EQ(out, "hi");
    EXPECT_THAT(outcome->struck, ElementsAre("killed: memory limit 64 MiB"));
    EXPECT_THAT(backend.asked, ElementsAre("create", "exec", "destroy"));
}

TEST(BackendRun, DestroysTheSandboxOfACommandThatDoesNotStart)
{
    FakeBackend backend;
    backend.exec_fails = Error{.code = Code::NotFound, .message = "no such command"};
    backend.destroy_fails = Error{.code = Code::Internal, .message = "later trouble"};
    const auto outcome = run_task(backend.run({}, {}, {}));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().message, "no such command") << "the first failure is the one to tell";
    EXPECT_THAT(backend.asked, ElementsAre("create", "exec", "destroy"));
}

TEST(BackendRun, TellsThatTheSandboxCouldNotBeRemoved)
{
    FakeBackend backend;
    backend.events = {{exit_event(0, 0), event(1, ExecEvent::Kind::Closed)}};
    backend.destroy_fails = Error{.code = Code::Unavailable, .message = "still there"};
    const auto outcome = run_task(backend.run({}, {}, {}));
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().message, "still there");
}

TEST(BackendFollow, KillsWhenTheTimeIsOverAndTellsTheTrueEnd)
{
    FakeBackend backend;
    backend.after_kill = {exit_event(0, 9), event(1, ExecEvent::Kind::Closed)};
    ExecSpec exec;
    exec.timeout = 1ns;
    const auto outcome = run_task(backend.follow({}, exec, {}));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_TRUE(outcome->timed_out);
    EXPECT_EQ(outcome->status.signal(), 9);
    EXPECT_THAT(backend.asked, ElementsAre("kill"));
}

TEST(BackendRun, NamesTheWallTimeLimitWhenItStrikes)
{
    FakeBackend backend;
    backend.after_kill = {exit_event(0, 9), event(1, ExecEvent::Kind::Closed)};
    SandboxSpec spec;
    spec.policy.limits.wall_time = 1ms;
    const auto outcome = run_task(backend.run(spec, {}, {}));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_TRUE(outcome->timed_out);
    EXPECT_THAT(outcome->struck, ElementsAre("killed: wall time limit 1ms"));
}

TEST(BackendFollow, FeedsAllInputInPiecesAndThenItsEnd)
{
    FakeBackend backend;
    backend.takes = 3;
    for (int i = 0; i < 4; ++i) backend.events.emplace_back();
    backend.events.push_back({exit_event(0, 0), event(1, ExecEvent::Kind::Closed)});
    ExecSpec exec;
    exec.input = ExecSpec::Stdin::Open;
    RunStreams streams;
    streams.input = "0123456789";
    const auto outcome = run_task(backend.follow({}, exec, streams));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(backend.input, "0123456789");
    EXPECT_THAT(backend.asked, ElementsAre("close input"));
}

TEST(BackendFollow, DoesNotWaitForGrandchildrenForEver)
{
    FakeBackend backend;
    backend.events = {{exit_event(0, 3 << 8)}}; // and never `closed`
    const auto outcome = run_task(backend.follow({}, {}, {}));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(outcome->status.code(), 3);
    EXPECT_FALSE(outcome->timed_out);
}

TEST(BackendFollow, AddsUpWhatTheLogDropped)
{
    FakeBackend backend;
    ExecEvent gap = event(0, ExecEvent::Kind::Gap);
    gap.gap_bytes = 1000;
    backend.events = {{gap, exit_event(1, 0), event(2, ExecEvent::Kind::Closed)}};
    EXPECT_EQ(run_task(backend.follow({}, {}, {}))->dropped, 1000u);
}

} // namespace
} // namespace berth
