// `berth exec`: a command in a sandbox that exists, joined with our own streams and signals.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "cli/box.hpp"
#include "cli/documents.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string every_byte()
{
    std::string bytes;
    for (int round = 0; round < 3; ++round)
        for (int c = 0; c < 256; ++c) bytes.push_back(static_cast<char>(c));
    return bytes;
}

TEST(Exec, ExitsWithTheCommandsCode)
{
    const Box box;
    for (const int code : {0, 7, 124, 255}) EXPECT_EQ(box.shell("exit " + std::to_string(code)).code, code);
    EXPECT_EQ(box.shell("kill -9 $$").code, 128 + SIGKILL);
    EXPECT_EQ(box.shell("kill -TERM $$").code, 128 + SIGTERM);
}

TEST(Exec, IsSilentItself)
{
    const Box box;
    const auto ended = box.shell("exit 7");
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, "");
}

TEST(Exec, TellsWhatCannotBeStartedAsAShellDoes)
{
    const Box box;
    const auto missing = box.exec({}, {"no-such-command"});
    EXPECT_EQ(missing.code, 127);
    EXPECT_EQ(missing.err, "berth: command not found in the sandbox: no-such-command\n");
    EXPECT_EQ(box.exec({}, {"/etc/passwd"}).code, 126);
    EXPECT_EQ(box.exec({"-w", "/not/there"}, {"true"}).code, 125);
}

TEST(Exec, Is125WithACodeForASandboxThatIsNotThere)
{
    const auto ended = berth({"exec", "--json", "nobody", "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.out, HasSubstr(R"("code":"not_found")"));
    EXPECT_EQ(berth({"exec", "nobody", "--", "true"}).code, 125);
    EXPECT_EQ(berth({"exec", "--no-such-option", "nobody", "--", "true"}).code, 125);
}

TEST(Exec, FindsItsSandboxByNameKeyAndPrefix)
{
    const Box box({"--name", "boxname", "--key", "the/key"});
    EXPECT_EQ(berth({"exec", "boxname", "--", "sh", "-c", "exit 3"}).code, 3);
    EXPECT_EQ(berth({"exec", "the/key", "--", "sh", "-c", "exit 4"}).code, 4);
    EXPECT_EQ(berth({"exec", box.id().substr(0, 20), "--", "sh", "-c", "exit 5"}).code, 5);
    EXPECT_EQ(berth({"exec", box.id().substr(4, 20), "--", "sh", "-c", "exit 6"}).code, 6);
}

TEST(Exec, TakesOptionsOnBothSidesOfTheSandbox)
{
    const Box box;
    EXPECT_EQ(berth({"exec", box.id(), "-w", "/tmp", "--", "pwd"}).out, "/tmp\n");
    EXPECT_EQ(berth({"exec", "-w", "/tmp", box.id(), "printf", "%s", "-w"}).out, "-w");
    EXPECT_EQ(box.exec({}, {"printf", "%s %s", "--", "x"}).out, "-- x");
    EXPECT_EQ(berth({"exec", box.id(), "printf", "--", "x"}).code, 125);
    EXPECT_EQ(berth({"exec", box.id()}).code, 125);
}

TEST(Exec, RefusesACommandThatIsAnOptionAndSaysWhatToType)
{
    const Box box({"--name", "demo"});
    const auto expect_told = [](const Words& behind, const std::string& line) {
        Words args{"exec", "demo"};
        args.insert(args.end(), behind.begin(), behind.end());
        const auto ended = berth(args);
        EXPECT_EQ(ended.code, 125) << line;
        EXPECT_EQ(ended.err, "berth: options stand before the sandbox, or -- behind them: " + line + "\n");
    };
    expect_told({"--detach", "sleep", "5"}, "berth exec --detach demo -- sleep 5");
    expect_told({"-it", "bash"}, "berth exec -it demo -- bash");
    expect_told({"-w", "/tmp", "-e", "A=b c", "sh", "-c", "echo $A"},
                "berth exec -w /tmp -e 'A=b c' demo -- sh -c 'echo $A'");
    expect_told({"--timeout=5s"}, "berth exec --timeout=5s demo -- CMD…");
    const auto json = berth({"exec", "demo", "--json", "echo", "hi"});
    EXPECT_EQ(json.code, 125);
    EXPECT_EQ(error_code(json), "invalid");
    EXPECT_EQ(berth({"exec", "demo", "--help"}).out, berth({"exec", "--help"}).out);
    EXPECT_EQ(berth({"exec", "demo", "-h"}).code, 0);
    EXPECT_EQ(document({"inspect", "demo"}).at("execs").as_array().size(), 0u);
    EXPECT_EQ(berth({"exec", "demo", "--", "--detach"}).code, 127);
    EXPECT_EQ(berth({"exec", "demo", "printf", "%s", "--help"}).out, "--help");
}

TEST(Exec, KeepsTheStreamsApart)
{
    const Box box;
    const auto ended = box.shell("echo out; echo err >&2; echo more");
    EXPECT_EQ(ended.out, "out\nmore\n");
    EXPECT_EQ(ended.err, "err\n");
}

TEST(Exec, PassesEveryByteBothWays)
{
    const Box box;
    const auto ended =
        run({.args = box.words({}, {"sh", "-c", "cat; cat >&2 </dev/null"}), .input = every_byte()});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, every_byte());
}

TEST(Exec, EndsTheInputWhereOursEnds)
{
    const Box box;
    EXPECT_EQ(run({.args = box.words({}, {"wc", "-c"}), .input = "12345"}).out, "5\n");
    EXPECT_EQ(box.exec({}, {"wc", "-c"}).out, "0\n"); // from /dev/null
    EXPECT_EQ(run({.args = box.words({}, {"wc", "-c"}), .in = -2}).out, "0\n");
}

TEST(Exec, LeavesInputThatNobodyReads)
{
    const Box box;
    const auto ended = run({.args = box.words({}, {"head", "-c", "3"}), .input = std::string(1 << 20, 'x')});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, "xxx");
}

TEST(Exec, MovesFiftyMegabytesThroughCat)
{
    std::string bytes(50u << 20, '\0');
    std::uint64_t state = 88172645463325252u;
    for (auto& c : bytes) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        c = static_cast<char>(state);
    }
    const Box box;
    const std::string in = Place::here().file("in", bytes);
    const UniqueFd from(::open(in.c_str(), O_RDONLY | O_CLOEXEC));
    const auto ended = run({.args = box.words({}, {"cat"}), .in = from.get()});
    EXPECT_EQ(ended.code, 0);
    EXPECT_TRUE(ended.out == bytes) << ended.out.size() << " bytes of " << bytes.size() << ": " << ended.err;
}

/// The most memory a process has had, in kB.
std::size_t most_memory(pid_t pid)
{
    const std::string status = contents("/proc/" + std::to_string(pid) + "/status");
    const auto at = status.find("VmHWM:");
    return at == std::string::npos ? 0 : std::stoul(status.substr(at + 6));
}

TEST(Exec, WaitsForASlowReaderWithoutKeepingItsOutput)
{
    const Box box;
    Started quiet({.args = box.words({}, {"sh", "-c", "echo ready; exec sleep 1000"})});
    ASSERT_TRUE(quiet.wait_for("ready\n"));
    const std::size_t usual = most_memory(quiet.pid());
    ASSERT_GT(usual, 0u);
    Started slow({.args = box.words({}, {"sh", "-c", "head -c 40000000 /dev/zero; echo end >&2"})});
    // It has printed everything long before we read any of it.
    ASSERT_TRUE(eventually([&] { return box.logs({"--stderr"}).out == "end\n"; }));
    EXPECT_LT(most_memory(slow.pid()), usual + 20'000) << "kB";
    const auto ended = slow.finish();
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out.size(), 40'000'000u);
}

TEST(Exec, TellsTheCommandThatItsReaderIsGone)
{
    const Box box;
    Started yes({.args = box.words({}, {"yes"})});
    ASSERT_TRUE(yes.wait_for("y\n"));
    yes.close_output();
    EXPECT_EQ(yes.finish().code, 128 + SIGPIPE);
}

TEST(Exec, GivesTheCommandWhatItIsTold)
{
    const Box box;
    const auto ended =
        run({.args = box.words({"-e", "ONE=1 2", "-e", "TOKEN", "-w", "/tmp"},
                               {"sh", "-c", "pwd; echo \"$ONE\"; echo \"$TOKEN\"; echo \"$HIDDEN\""}),
             .env = {{"TOKEN", "from here"}, {"HIDDEN", "never"}}});
    EXPECT_EQ(ended.out, "/tmp\n1 2\nfrom here\n\n");
    EXPECT_EQ(box.exec({"-e", "NOT_SET_ANYWHERE"}, {"true"}).code, 125);
}

TEST(Exec, ShowsThePassedEnvironmentInNoCommandLine)
{
    const Box box;
    const std::string secret = "secret-" + Place::here().mark();
    Started sleeper({.args = box.words({"-e", "TOKEN"}, {"sh", "-c", "echo \"$TOKEN\"; sleep 1000"}),
                     .env = {{"TOKEN", secret}}});
    ASSERT_TRUE(sleeper.wait_for(secret));
    for (const int pid : processes_with(secret))
        EXPECT_THAT(contents("/proc/" + std::to_string(pid) + "/cmdline"), Not(HasSubstr(secret)));
    sleeper.signal(SIGTERM);
    EXPECT_EQ(sleeper.finish().code, 128 + SIGTERM);
}

TEST(Exec, RunsAsAnotherUser)
{
    BERTH_NEEDS_ROOT();
    const Box box;
    EXPECT_EQ(box.exec({"-u", "root"}, {"id", "-u"}).out, "0\n");
    EXPECT_EQ(box.exec({}, {"id", "-u"}).out, "1000\n");
}

TEST(Exec, StartsASandboxThatWasStopped)
{
    const Box box;
    EXPECT_EQ(box.shell("echo kept >/tmp/file").code, 0);
    ASSERT_EQ(berth({"stop", box.id()}).code, 0);
    EXPECT_EQ(box.logs().code, 0) << "the log of a stopped one is still there";
    const auto ended = box.shell("cat /tmp/file");
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, "kept\n");
    EXPECT_EQ(ended.err, "berth: started " + box.id() + "\n");
}

TEST(Exec, KeepsWhatEarlierOnesWrote)
{
    const Box box;
    EXPECT_EQ(box.shell("echo kept >/tmp/file").code, 0);
    EXPECT_EQ(box.shell("cat /tmp/file").out, "kept\n");
}

TEST(Exec, ForwardsSignalsToTheWholeGroup)
{
    const Box box;
    Started told(
        {.args = box.words(
             {}, {"sh", "-c", "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done"})});
    ASSERT_TRUE(told.wait_for("ready"));
    told.signal(SIGTERM);
    const auto ended = told.finish();
    EXPECT_EQ(ended.out, "ready\ngot\n");
    EXPECT_EQ(ended.code, 9);
}

TEST(Exec, IsKilledByTheSecondInterrupt)
{
    const Box box;
    Started stubborn({.args = box.words(
                          {}, {"sh", "-c", "trap 'echo no' INT; echo ready; while :; do sleep 0.05; done"})});
    ASSERT_TRUE(stubborn.wait_for("ready"));
    stubborn.signal(SIGINT);
    ASSERT_TRUE(stubborn.wait_for("no"));
    stubborn.signal(SIGINT);
    EXPECT_EQ(stubborn.finish().code, 128 + SIGKILL);
}

TEST(Exec, TimesOutAndLeavesNothingOfIt)
{
    const Box box;
    const std::string word = "berth-daemon-" + Place::here().mark();
    const std::string script = "(setsid sh -c 'echo up; exec -a " + word +
                               " sleep 1000' >/dev/null 2>&1 &) ; echo started; sleep 1000";
    const auto ended = box.exec({"--timeout", "1s"}, {"bash", "-c", script});
    EXPECT_EQ(ended.code, 124);
    EXPECT_EQ(ended.out, "started\n");
    EXPECT_EQ(ended.err, "berth: timed out after 1s: the command was killed, with what it had started\n");
    EXPECT_LT(ended.took.count(), 30'000);
    if (is_root()) EXPECT_TRUE(eventually([&] { return processes_with(word).empty(); }));
    EXPECT_EQ(box.shell("exit 3").code, 3) << "the sandbox lives on";
}

TEST(Exec, EndsInTimeAlsoWhenNobodyReadsItsOutput)
{
    const Box box;
    Started loud({.args = box.words({"--timeout", "1s"}, {"yes"})});
    siginfo_t ended{};
    EXPECT_TRUE(eventually([&] {
        return ::waitid(P_PID, static_cast<id_t>(loud.pid()), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               ended.si_pid == loud.pid();
    }));
    EXPECT_EQ(loud.finish().code, 124);
}

TEST(Exec, DoesNotWaitForADaemonThatHoldsItsStreams)
{
    const Box box;
    const auto ended = box.shell("sleep 1000 & echo done");
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, "done\n");
    EXPECT_LT(ended.took.count(), 30'000);
}

TEST(Exec, TellsAllInJson)
{
    const Box box;
    const auto ended = box.exec({"--json"}, {"sh", "-c", "echo hi; exit 4"});
    EXPECT_EQ(ended.code, 4);
    EXPECT_THAT(ended.out, ::testing::StartsWith(R"({"event":"exec","exec":"exec_)"));
    EXPECT_THAT(ended.out, HasSubstr(R"("outcome":"attached")"));
    EXPECT_THAT(ended.out, HasSubstr(R"("event":"stdout")"));
    EXPECT_THAT(ended.out, HasSubstr("aGkK"));
    EXPECT_THAT(ended.out, HasSubstr(R"("code":4)"));
    EXPECT_THAT(ended.out, ::testing::EndsWith("}\n"));
}

TEST(Exec, TakesANarrowerPolicyAndRefusesAWiderOne)
{
    const Box box;
    const auto narrow = box.exec({"--policy", "read-only"}, {"sh", "-c", "echo x >/tmp/new"});
    EXPECT_NE(narrow.code, 0);
    const std::string wide = Place::here().file("wide.json", R"({"network":"host"})");
    const auto wider = box.exec({"--policy", wide}, {"true"});
    EXPECT_EQ(wider.code, 125);
    EXPECT_THAT(wider.err, HasSubstr("wider"));
}

} // namespace
} // namespace berth::test
