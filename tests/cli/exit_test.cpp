// What `berth run` answers: the exit code is the command's, or says exactly why there is none.

#include <gtest/gtest.h>

#include <csignal>

#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

TEST(Exit, IsTheCommandsCode)
{
    for (const int code : {0, 1, 7, 124, 125, 126, 127, 255})
        EXPECT_EQ(shell({}, "exit " + std::to_string(code)).code, code);
}

TEST(Exit, IsOneHundredTwentyEightPlusTheSignal)
{
    EXPECT_EQ(shell({}, "kill -9 $$").code, 128 + SIGKILL);
    EXPECT_EQ(shell({}, "kill -TERM $$").code, 128 + SIGTERM);
    EXPECT_EQ(shell({}, "kill -SEGV $$").code, 128 + SIGSEGV);
}

TEST(Exit, IsSilentWhenTheCommandEnded)
{
    const auto ended = shell({}, "exit 7");
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(ended.err, "");
}

TEST(Exit, Is127ForACommandThatIsNotThere)
{
    const auto ended = berth({"run", "--", "no-such-command"});
    EXPECT_EQ(ended.code, 127);
    EXPECT_EQ(ended.err, "berth: command not found in the sandbox: no-such-command\n");
    EXPECT_EQ(berth({"run", "--", "/no/such/command"}).code, 127);
}

TEST(Exit, Is126ForAFileThatIsNoProgram)
{
    const auto ended = berth({"run", "--", "/etc/passwd"});
    EXPECT_EQ(ended.code, 126);
    EXPECT_EQ(ended.err, "berth: cannot execute /etc/passwd: Permission denied\n");
    EXPECT_EQ(berth({"run", "--", "/usr"}).code, 126);
}

TEST(Exit, Is125WhenBerthItselfFailed)
{
    EXPECT_EQ(berth({"run", "--workdir", "/not/there", "--", "true"}).code, 125);
    EXPECT_EQ(berth({"run", "--no-such-option", "--", "true"}).code, 125);
}

TEST(Exit, TakesTheCommandWithoutTheTwoDashes) { EXPECT_EQ(berth({"run", "sh", "-c", "exit 9"}).code, 9); }

TEST(Exit, OfTheFirstProcessEndsTheSandboxWithItsDaemons)
{
    const Traces before = traces();
    const auto ended =
        shell(marked(), "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & exit 5");
    EXPECT_EQ(ended.code, 5);
    EXPECT_LT(ended.took.count(), 60'000);
    expect_same(before);
}

} // namespace
} // namespace berth::test
