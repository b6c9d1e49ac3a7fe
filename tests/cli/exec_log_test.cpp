// Execs that outlive `berth exec`, and `berth logs`, which finds what they printed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <sstream>

#include "base/json.hpp"
#include "cli/box.hpp"
#include "cli/documents.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string numbers(int last)
{
    std::string out;
    for (int i = 1; i <= last; ++i) out += std::to_string(i) + "\n";
    return out;
}

/// How many bytes an event holds, which are in base64.
std::size_t bytes_of(const json::Object& event)
{
    const auto* data = event.if_contains("data");
    if (data == nullptr) return 0;
    const std::string_view text = data->as_string();
    return text.size() / 4 * 3 - static_cast<std::size_t>(std::ranges::count(text, '='));
}

TEST(ExecLog, OfACommandThatWasNotStartedSaysWhy)
{
    const Box box;
    EXPECT_EQ(box.exec({}, {"no-such-program"}).code, 127);
    const auto ended = box.logs();
    EXPECT_EQ(ended.code, 3);
    EXPECT_THAT(ended.err,
                MatchesRegex("berth: exec_[0-9a-z]{26} has no log, it was not started: command not found "
                             "in the sandbox: no-such-program\n"));
}

TEST(ExecLog, OfAnExecAloneSaysThatTheSandboxIsMissing)
{
    const auto ended = berth({"logs", "exec_01jd7f3"});
    EXPECT_EQ(ended.code, 3);
    EXPECT_EQ(ended.err,
              "berth: exec_01jd7f3 is a command, no sandbox: write berth logs SANDBOX exec_01jd7f3\n");
}

TEST(ExecLog, IsFollowedFromAnotherProcess)
{
    const Box box;
    const auto started = box.exec({"--detach"}, {"sh", "-c", "echo one; sleep 0.5; echo two >&2; exit 5"});
    EXPECT_EQ(started.code, 0);
    EXPECT_THAT(started.out, MatchesRegex("exec_[0-9a-z]{26}\n"));
    EXPECT_EQ(started.err, "");
    const std::string exec = trimmed(started.out);
    const auto followed = box.logs({exec, "--follow"});
    EXPECT_EQ(followed.code, 0);
    EXPECT_EQ(followed.out, "one\n");
    EXPECT_EQ(followed.err, "two\nberth: " + exec + " ended: exit code 5\n");
}

TEST(ExecLog, IsWholeAfterTheDeathOfTheOneWhoStartedIt)
{
    const Box box;
    Started victim({.args = box.words({}, {"sh", "-c", "seq 1 200000; sleep 1; seq 200001 400000"})});
    ASSERT_TRUE(victim.wait_for("\n1000\n"));
    victim.signal(SIGKILL);
    victim.finish();
    const auto followed = box.logs({"--follow"});
    EXPECT_EQ(followed.code, 0);
    EXPECT_TRUE(followed.out == numbers(400'000)) << followed.out.size();
    EXPECT_THAT(followed.err, HasSubstr("ended: exit code 0"));
}

TEST(ExecLog, IsReadInPiecesWithoutALineLostOrDoubled)
{
    const Box box;
    const std::string all = numbers(100'000);
    EXPECT_EQ(box.exec({}, {"seq", "1", "100000"}).out, all);
    EXPECT_EQ(box.logs().out, all);
    std::istringstream lines(box.logs({"--json"}).out);
    std::size_t before = 0;
    for (std::string line; std::getline(lines, line);) {
        const auto event = json::parse(line)->as_object();
        before += bytes_of(event);
        const auto seq = event.at("seq").to_number<std::uint64_t>();
        EXPECT_TRUE(box.logs({"--after", std::to_string(seq)}).out == all.substr(before))
            << line.substr(0, 60);
    }
    EXPECT_EQ(before, all.size());
}

TEST(ExecLog, HasOneStreamOrBoth)
{
    const Box box;
    static_cast<void>(box.shell("echo out; echo err >&2"));
    EXPECT_EQ(box.logs({"--stdout"}).out, "out\n");
    EXPECT_EQ(box.logs({"--stdout"}).err, "");
    EXPECT_EQ(box.logs({"--stderr"}).out, "err\n");
    EXPECT_EQ(box.logs().out, "out\n");
    EXPECT_EQ(box.logs().err, "err\n");
    EXPECT_EQ(box.logs({"--stdout", "--stderr"}).code, 2);
}

TEST(ExecLog, IsThatOfTheNewestOrOfTheOneNamed)
{
    const Box box;
    EXPECT_EQ(box.logs().code, 3) << "nothing was run yet";
    const std::string first = trimmed(box.exec({"--detach"}, {"echo", "first"}).out);
    EXPECT_EQ(box.shell("echo second").code, 0);
    EXPECT_EQ(box.logs().out, "second\n");
    EXPECT_EQ(box.logs({first, "--follow"}).out, "first\n");
    EXPECT_EQ(box.logs({first.substr(0, 26), "--follow"}).out, "first\n");
    EXPECT_EQ(box.logs({"exec_zzzz"}).code, 3);
    EXPECT_EQ(berth({"logs", "nobody"}).code, 3);
}

TEST(ExecLog, TellsItsGaps)
{
    const Box box;
    const auto ended =
        box.exec({"--log-limit", "64KiB", "--detach"}, {"sh", "-c", "seq 1 200000; echo end >&2"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto followed = box.logs({"--follow"});
    EXPECT_THAT(followed.out, ::testing::StartsWith("1\n2\n3\n"));
    EXPECT_THAT(followed.out, ::testing::EndsWith("\n200000\n"));
    EXPECT_LT(followed.out.size(), numbers(200'000).size());
    const auto all = box.logs({"--json"});
    EXPECT_THAT(all.out, HasSubstr(R"("event":"gap")"));
    EXPECT_THAT(box.logs().err, HasSubstr("bytes of output are missing here"));
}

TEST(ExecLog, IsGoneOnWithBehindEveryEventBesideAGapToo)
{
    const Box box;
    const auto started = box.exec({"--log-limit", "64KiB", "--detach"},
                                  {"sh", "-c", "seq 1 90000; echo end >&2; seq 1 90000"});
    ASSERT_EQ(started.code, 0) << started.err;
    ASSERT_EQ(box.logs({"--follow"}).code, 0);
    const auto whole = box.logs({"--json"}).out;
    ASSERT_THAT(whole, HasSubstr(R"("event":"gap")"));
    const auto rest = [](std::span<const json::Value> events) {
        std::pair<std::size_t, std::uint64_t> kept_and_missing;
        for (const auto& event : events) {
            kept_and_missing.first += bytes_of(event.as_object());
            if (const auto* gap = event.as_object().if_contains("bytes"))
                kept_and_missing.second += gap->to_number<std::uint64_t>();
        }
        return kept_and_missing;
    };
    const auto events = json_lines(whole);
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
        const auto seq = events[i].at("seq").to_number<std::uint64_t>();
        EXPECT_GT(events[i + 1].at("seq").to_number<std::uint64_t>(), seq);
        const auto later = json_lines(box.logs({"--json", "--after", std::to_string(seq)}).out);
        EXPECT_EQ(rest(later), rest(std::span(events).subspan(i + 1))) << i;
    }
}

TEST(ExecLog, OfADetachedOneEndsWhenItsTimeIsOver)
{
    const Box box;
    const auto started = box.exec({"--detach", "--timeout", "2s"}, {"sh", "-c", "echo begun; sleep 300"});
    ASSERT_EQ(started.code, 0) << started.err;
    const std::string exec = trimmed(started.out);
    const auto followed = box.logs({exec, "--follow"});
    EXPECT_EQ(followed.out, "begun\n");
    EXPECT_THAT(followed.err, HasSubstr("ended: timed out, signal 9"));
    const auto events = json_lines(box.logs({exec, "--json"}).out);
    const auto& exit = events.at(events.size() - 2);
    EXPECT_EQ(exit.at("event").as_string(), "exit");
    EXPECT_EQ(exit.at("status").as_string(), "timed out, signal 9");
    EXPECT_EQ(exit.at("signal").as_int64(), 9);
    EXPECT_TRUE(exit.at("timed_out").as_bool());
}

TEST(ExecLog, SaysOfOneThatWasKilledBeforeItsTimeThatItWas)
{
    const Box box;
    const auto started = box.exec({"--detach", "--timeout", "1000s"}, {"sh", "-c", "kill -9 $$"});
    ASSERT_EQ(started.code, 0) << started.err;
    const auto followed = box.logs({trimmed(started.out), "--follow"});
    EXPECT_THAT(followed.err, HasSubstr("ended: killed by SIGKILL"));
    EXPECT_THAT(box.logs({"--json"}).out, HasSubstr(R"("timed_out":false)"));
}

TEST(ExecLog, OfAnAttendedOneSaysTheSameAsItsFollower)
{
    const Box box;
    const auto ended = box.exec({"--timeout", "300ms", "--json"}, {"sleep", "300"});
    EXPECT_EQ(ended.code, 124);
    EXPECT_THAT(ended.out, HasSubstr(R"("status":"timed out, signal 9","timed_out":true)"));
    EXPECT_THAT(box.logs({"--json"}).out, HasSubstr(R"("status":"timed out, signal 9","timed_out":true)"));
    const auto turn = box.exec({"--yield", "20s", "--timeout", "300ms", "--json"}, {"sleep", "300"});
    EXPECT_EQ(turn.code, 124);
    EXPECT_THAT(turn.out, HasSubstr(R"("status":"timed out, signal 9","timed_out":true)"));
}

TEST(ExecLog, LosesNothingToAReaderWhoIsSlow)
{
    const Box box;
    const auto ended = box.exec({"--log-limit", "8MiB"}, {"head", "-c", "100000000", "/dev/zero"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out.size(), 100'000'000u);
    EXPECT_EQ(ended.err, "");
}

TEST(ExecLog, OfAYieldSaysWhereItGoesOn)
{
    const Box box;
    const auto turn =
        box.exec({"--yield", "2s", "--json"},
                 {"sh", "-c", "echo a; while [ ! -e go ]; do sleep 0.05; done; echo b; exit 6"});
    ASSERT_EQ(turn.code, 0) << turn.out << turn.err;
    const auto answer = json::parse(turn.out)->as_object();
    EXPECT_TRUE(answer.at("running").as_bool());
    EXPECT_EQ(answer.at("output").as_string(), "a\n");
    const std::string exec(answer.at("exec").as_string());
    const auto next = answer.at("next_seq").to_number<std::uint64_t>();
    ASSERT_EQ(box.exec({}, {"touch", "go"}).code, 0);
    const auto rest = box.logs({exec, "--follow", "--after", std::to_string(next - 1)});
    EXPECT_EQ(rest.out, "b\n");
    EXPECT_THAT(rest.err, HasSubstr("exit code 6"));
}

TEST(ExecLog, OfAYieldThatEndsInTimeHasTheExitCode)
{
    const Box box;
    const auto turn = box.exec({"--yield", "20s"}, {"sh", "-c", "echo a; exit 6"});
    EXPECT_EQ(turn.code, 6);
    EXPECT_EQ(turn.out, "a\n");
    EXPECT_EQ(turn.err, "");
    EXPECT_LT(turn.took.count(), 15'000);
    const auto cut = box.exec({"--yield", "20s", "--max-output-tokens", "10"}, {"seq", "1", "10000"});
    EXPECT_THAT(cut.out, ::testing::StartsWith("10000 lines in all\n1\n2\n"));
    EXPECT_THAT(cut.out, HasSubstr("bytes left out"));
    EXPECT_THAT(cut.out, ::testing::EndsWith("10000\n"));
}

TEST(ExecLog, OfAYieldTellsWhatTheLogDoesNotHold)
{
    const Box box;
    // It prints all before it is looked at.
    const auto started =
        box.exec({"--detach", "-i", "--log-limit", "64KiB"}, {"sh", "-c", "seq 100000; cat"});
    ASSERT_EQ(started.code, 0) << started.err;
    const std::string exec = trimmed(started.out);
    const auto ended = berth({"input", box.id(), exec, "--close", "--yield", "20s"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_THAT(ended.out, ContainsRegex("\n\\[berth: [0-9]+ bytes of output are missing here\\]\n"));
    EXPECT_THAT(ended.err, ContainsRegex("berth: [0-9]+ bytes of output are missing in it"));
    // Whoever starts it may be quick enough to miss nothing.
    const auto turn = box.exec({"--yield", "20s", "--log-limit", "64KiB"}, {"seq", "400000"});
    EXPECT_EQ(turn.code, 0);
    const bool whole = turn.out == numbers(400'000);
    EXPECT_NE(whole, turn.err.contains("bytes of output are missing in it")) << turn.err;
    EXPECT_NE(whole, turn.out.contains("bytes of output are missing here]"));
}

TEST(ExecLog, OfAYieldRunsOnInWords)
{
    const Box box;
    const auto turn = box.exec({"--yield", "0.25s"}, {"sleep", "3"});
    EXPECT_EQ(turn.code, 0);
    EXPECT_THAT(turn.err, HasSubstr("runs on: berth logs"));
    EXPECT_THAT(box.logs({"--follow"}).err, HasSubstr("exit code 0"));
}

} // namespace
} // namespace berth::test
