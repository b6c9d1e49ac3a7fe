// `berth kill`: TERM, and KILL to the whole tree after a grace.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/box.hpp"
#include "cli/documents.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

/// Runs until it is ended; it has printed "up".
std::string running(const Box& box, const std::string& script)
{
    const auto exec = trimmed(box.exec({"--detach"}, {"sh", "-c", script}).out);
    EXPECT_TRUE(eventually([&] { return box.logs({exec}).out == "up\n"; })) << script;
    return exec;
}

constexpr const char* kDeaf = "trap '' TERM; (while :; do sleep 0.05; done) & echo up; wait; sleep 1000";

std::string outcome(const json::Value& told) { return std::string(told.at("outcome").as_string()); }

TEST(Cancel, LetsATrapRunAndTellsItsExitCode)
{
    const Box box;
    const auto exec = running(box, "trap 'echo cleaned; exit 3' TERM; echo up; while :; do sleep 0.05; done");
    const auto told = document({"kill", box.id(), exec, "--grace", "1m"});
    EXPECT_EQ(told.at("id").as_string(), exec);
    EXPECT_EQ(outcome(told), "exit 3");
    EXPECT_EQ(box.logs({exec}).out, "up\ncleaned\n");
    const auto followed = box.logs({exec, "--follow"});
    EXPECT_THAT(followed.err, HasSubstr("exit code 3"));
}

TEST(Cancel, KillsOneThatIgnoresItWithAllItStarted)
{
    const Box box;
    const auto exec = running(box, kDeaf);
    EXPECT_EQ(outcome(document({"kill", box.id(), exec, "--grace", "300ms"})), "signal 9");
    // What it started holds its streams: they are closed when nobody does.
    EXPECT_THAT(box.logs({exec, "--follow", "--json"}).out, HasSubstr(R"("event":"closed")"));
}

TEST(Cancel, KillsWhatOutlivedItsCommand)
{
    BERTH_NEEDS_ROOT(); // without control groups it is not found
    const Box box;
    const auto exec = running(box, "(trap '' TERM; while :; do sleep 0.05; done) & echo up; wait");
    const auto told = document({"kill", box.id(), exec, "--grace", "1m"});
    EXPECT_EQ(outcome(told), "signal 15") << "its own end";
    EXPECT_THAT(box.logs({exec, "--follow", "--json"}).out, HasSubstr(R"("event":"closed")"));
}

TEST(Cancel, OfOneThatHasEndedIsSuccess)
{
    const Box box;
    ASSERT_EQ(box.shell("exit 7").code, 7);
    const auto exec = std::string(document({"inspect", box.id()}).at("execs").at(0).at("id").as_string());
    EXPECT_EQ(outcome(document({"kill", box.id(), exec})), "exit 7");
    EXPECT_EQ(berth({"kill", box.id(), exec, "--signal", "TERM"}).code, 4);
    EXPECT_EQ(berth({"kill", box.id(), "exec_none"}).code, 3);
}

TEST(Cancel, IsToldTheSameToAllWhoAsk)
{
    const Box box;
    const auto exec = running(box, kDeaf);
    const Words words{"kill", box.id(), exec, "--grace", "1s", "--json"};
    Started one({.args = words});
    Started other({.args = words});
    for (auto* const asker : {&one, &other}) {
        const auto ended = asker->finish();
        EXPECT_EQ(ended.code, 0) << ended.err;
        EXPECT_THAT(ended.out, HasSubstr(R"("outcome":"signal 9")"));
    }
}

TEST(Cancel, OfAPausedSandboxDoesNotWaitForIt)
{
    BERTH_NEEDS_ROOT(); // to pause one
    const Box box;
    const auto exec = running(box, "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done");
    ASSERT_EQ(berth({"pause", box.id()}).code, 0);
    const auto told = document({"kill", box.id(), exec, "--grace", "1m"});
    EXPECT_EQ(outcome(told), "signal 9");
    EXPECT_EQ(document({"inspect", box.id()}).at("state").as_string(), "paused");
    ASSERT_EQ(berth({"resume", box.id()}).code, 0);
}

TEST(Cancel, RefusesAGraceThatIsNone)
{
    for (const char* grace : {"2m", "-1s", "soon"})
        EXPECT_EQ(berth({"kill", "box", "exec_1", "--grace", grace}).code, 2) << grace;
    EXPECT_THAT(berth({"kill", "box", "exec_1", "--grace", "1s", "--signal", "HUP"}).err,
                HasSubstr("leave --grace out"));
}

} // namespace
} // namespace berth::test
