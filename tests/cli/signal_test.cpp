// Signals and deadlines: what reaches `berth run` reaches the command; what must end, ends wholly.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

TEST(Timeout, KillsTheCommandAndSaysSo)
{
    const auto ended = berth({"run", "--timeout", "1s", "--", "sleep", "60"});
    EXPECT_EQ(ended.code, 124);
    EXPECT_GE(ended.took.count(), 1000);
    EXPECT_LT(ended.took.count(), 20'000);
    EXPECT_EQ(ended.err, "berth: timed out after 1s: the command and everything it started were killed\n");
}

TEST(Timeout, KillsDaemonsAndThoseWhoIgnoreSignals)
{
    const Traces before = traces();
    const auto ended =
        shell(marked({"--timeout", "3s"}),
              "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & "
              "(setsid sleep 1000 &) ; nohup sleep 1000 >/dev/null 2>&1 & echo up; sleep 1000");
    EXPECT_EQ(ended.code, 124);
    EXPECT_EQ(ended.out, "up\n");
    expect_same(before);
}

TEST(Timeout, TellsWhatWasPrintedBefore)
{
    const auto ended = shell({"--timeout", "2s"}, "echo before; echo and >&2; sleep 60");
    EXPECT_EQ(ended.code, 124);
    EXPECT_EQ(ended.out, "before\n");
    EXPECT_TRUE(ended.err.starts_with("and\n")) << ended.err;
}

TEST(Timeout, OfThePolicyIsToldAsALimit)
{
    const auto policy = Place::here().file("wall.json", R"({"limits":{"wall_time":"500ms"}})");
    const auto ended = berth({"run", "--policy", policy, "--", "sleep", "60"});
    EXPECT_EQ(ended.code, 124) << ended.err;
    EXPECT_EQ(ended.err, "berth: killed: wall time limit 500ms\n");
}

TEST(Timeout, DoesNotTouchACommandThatIsFaster)
{
    const auto ended = shell({"--timeout", "50s"}, "exit 4");
    EXPECT_EQ(ended.code, 4);
    EXPECT_EQ(ended.err, "");
}

class Forwarded : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(Forwarded, ReachesTheCommand)
{
    const auto [name, signo] = GetParam();
    const std::string script =
        std::string("trap 'echo got; exit 33' ") + name + "; echo ready; while :; do sleep 0.05; done";
    Started run({.args = {"run", "--", "sh", "-c", script}});
    ASSERT_TRUE(run.wait_for("ready\n"));
    run.signal(signo);
    const auto ended = run.finish();
    EXPECT_EQ(ended.code, 33);
    EXPECT_EQ(ended.out, "ready\ngot\n");
}

TEST_P(Forwarded, EndsACommandThatDoesNotCatchIt)
{
    const auto [name, signo] = GetParam();
    Started run({.args = {"run", "--", "sh", "-c", "echo ready; exec sleep 1000"}});
    ASSERT_TRUE(run.wait_for("ready\n"));
    run.signal(signo);
    EXPECT_EQ(run.finish().code, 128 + signo);
}

INSTANTIATE_TEST_SUITE_P(Signals, Forwarded,
                         testing::Values(std::pair("TERM", SIGTERM), std::pair("INT", SIGINT),
                                         std::pair("HUP", SIGHUP), std::pair("QUIT", SIGQUIT),
                                         std::pair("USR1", SIGUSR1), std::pair("USR2", SIGUSR2)),
                         [](const auto& info) { return info.param.first; });

TEST(Kill, OfBerthLeavesNothing)
{
    const Traces before = traces();
    Words args{"run"};
    for (const auto& word : marked()) args.push_back(word);
    args.insert(args.end(), {"--", "sh", "-c", "setsid sleep 1000 & sleep 1000 & echo ready; sleep 1000"});
    Started run({.args = args});
    ASSERT_TRUE(run.wait_for("ready\n"));
    EXPECT_TRUE(eventually([] { return processes_with(Place::here().mark()).size() >= 4; }));
    run.signal(SIGKILL);
    EXPECT_EQ(run.finish().signal, SIGKILL);
    // No process of ours is left that could remove its control group: the next run does.
    EXPECT_EQ(berth({"run", "--", "true"}).code, 0);
    expect_same(before);
}

TEST(Kill, OfBerthWithLimitsIsCleanedByTheNextRun)
{
    BERTH_NEEDS_ROOT();
    const Traces before = traces();
    Words args{"run", "--memory", "256MiB", "--pids", "50", "--cpus", "1"};
    for (const auto& word : marked()) args.push_back(word);
    args.insert(args.end(), {"--", "sh", "-c", "echo ready; sleep 1000"});
    Started killed({.args = args});
    ASSERT_TRUE(killed.wait_for("ready\n"));
    killed.signal(SIGKILL);
    killed.finish();
    EXPECT_EQ(berth({"run", "--", "true"}).code, 0);
    expect_same(before);
}

TEST(Kill, OfTheShellAroundBerthEndsIt)
{
    // A terminal that closes sends SIGHUP to the group; nobody may stay behind.
    const Traces before = traces();
    Words args{"-c", "\"$@\"; exit 0", "sh", program(), "run"};
    for (const auto& word : marked()) args.push_back(word);
    args.insert(args.end(), {"--", "sh", "-c", "echo ready; exec sleep 1000"});
    Started around({.args = args, .program = "/bin/sh", .in_child = [] { ::setpgid(0, 0); }});
    ASSERT_TRUE(around.wait_for("ready\n"));
    ::kill(-around.pid(), SIGHUP);
    around.finish();
    expect_same(before);
}

} // namespace
} // namespace berth::test
