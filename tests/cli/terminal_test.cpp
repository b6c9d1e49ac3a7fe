// `berth run -it` on a real terminal: the test holds the master side and is the person.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "cli/person.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Words interactive(Words command)
{
    Words args{"run", "-it"};
    for (const auto& word : marked()) args.push_back(word);
    args.push_back("--");
    args.insert(args.end(), command.begin(), command.end());
    return args;
}

TEST(Terminal, IsOneInsideWithOurSize)
{
    Person person(
        interactive({"sh", "-c", "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; echo $TERM"}));
    EXPECT_TRUE(person.see("/dev/pts/0"));
    EXPECT_TRUE(person.see("33 111"));
    EXPECT_TRUE(person.see("all"));
    EXPECT_TRUE(person.see("xterm-256color"));
    EXPECT_EQ(person.berth().finish().code, 0);
}

TEST(Terminal, FollowsAResize)
{
    Person person(
        interactive({"sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"}));
    ASSERT_TRUE(person.see("ready"));
    person.resize(50, 132);
    EXPECT_TRUE(person.see("50 132"));
    person.resize(24, 80);
    EXPECT_TRUE(person.see("24 80"));
    person.berth().signal(SIGTERM);
    person.berth().finish();
}

TEST(Terminal, IsRawWhileTheCommandRunsAndRestoredAfter)
{
    Person person(interactive({"sh", "-c", "echo ready; read line; exit 21"}));
    ASSERT_TRUE(person.see("ready"));
    EXPECT_TRUE(person.raw());
    person.type("go\r");
    EXPECT_EQ(person.berth().finish().code, 21);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(Terminal, IsRestoredWhenTheCommandCannotStart)
{
    Person person(interactive({"no-such-command"}));
    EXPECT_TRUE(person.see("command not found"));
    EXPECT_EQ(person.berth().finish().code, 127);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(Terminal, IsRestoredAfterATimeout)
{
    Words args = interactive({"sleep", "1000"});
    args.insert(args.begin() + 1, {"--timeout", "400ms"});
    Person person(args);
    EXPECT_TRUE(person.see("timed out"));
    EXPECT_EQ(person.berth().finish().code, 124);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(Terminal, IsRestoredAfterASignalThatEndsTheCommand)
{
    Person person(interactive({"sh", "-c", "echo ready; exec sleep 1000"}));
    ASSERT_TRUE(person.see("ready"));
    person.berth().signal(SIGTERM);
    EXPECT_EQ(person.berth().finish().code, 128 + SIGTERM);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(Terminal, CtrlCInterruptsTheForegroundCommandNotBerth)
{
    Person person(interactive({"sh", "-c",
                               "trap 'hit=1; echo caught' INT; echo ready; "
                               "while [ -z \"$hit\" ]; do sleep 0.05; done; echo went on; exit 9"}));
    ASSERT_TRUE(person.see("ready"));
    person.type("\x03");
    EXPECT_TRUE(person.see("caught"));
    EXPECT_TRUE(person.see("went on"));
    EXPECT_EQ(person.berth().finish().code, 9);
}

TEST(Terminal, CtrlDEndsTheInput)
{
    Person person(interactive({"sh", "-c", "echo ready; cat; echo ended; exit 4"}));
    ASSERT_TRUE(person.see("ready"));
    person.type("typed\r");
    EXPECT_TRUE(person.see("typed"));
    EXPECT_TRUE(person.see("typed"));
    person.type("\x04");
    EXPECT_TRUE(person.see("ended"));
    EXPECT_EQ(person.berth().finish().code, 4);
}

TEST(Terminal, ShellHasJobControl)
{
    Person person(interactive({"sh", "-i"}));
    person.type("PS1='ready> '\r");
    ASSERT_TRUE(person.see("ready> "));
    ASSERT_TRUE(person.see("ready> "));
    EXPECT_EQ(person.screen().find("job control turned off"), std::string::npos);
    person.type("sleep 1000271828\r");
    // Executed, it has the terminal: its shell's child takes that before.
    ASSERT_TRUE(eventually([] { return !processes_with("1000271828").empty(); }));
    std::this_thread::sleep_for(100ms); // the shell hands the terminal over before it waits
    person.type("\x1a");
    EXPECT_TRUE(person.see("Stopped"));
    person.type("bg\r");
    EXPECT_TRUE(person.see("sleep 1000271828"));
    person.type("kill %1; wait; echo gone $((40+2))\r");
    EXPECT_TRUE(person.see("gone 42"));
    person.type("exit 17\r");
    EXPECT_EQ(person.berth().finish().code, 17);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(Terminal, CarriesLargeOutput)
{
    Person person(interactive({"sh", "-c", "seq 1 30000; echo the-end"}));
    EXPECT_TRUE(person.see("\r\n29999\r\n30000\r\nthe-end"));
    EXPECT_EQ(person.berth().finish().code, 0);
}

TEST(Terminal, HungUpLeavesNothing)
{
    const Traces before = traces();
    {
        Person person(interactive({"sh", "-c", "trap '' HUP; setsid sleep 1000 & echo ready; sleep 1000"}));
        ASSERT_TRUE(person.see("ready"));
        person.berth().signal(SIGKILL);
        person.berth().finish();
    }
    EXPECT_EQ(berth({"run", "--", "true"}).code, 0);
    expect_same(before);
}

TEST(Terminal, IsToldOnceThatNothingOfTheDirectoryIsSeen)
{
    ::unlink((Place::here().state() + "/hinted-workspace").c_str());
    Person first(interactive({"sh", "-c", "echo ready"}));
    EXPECT_TRUE(first.see("--workspace . shows it (said once)"));
    EXPECT_EQ(first.berth().finish().code, 0);
    Person second(interactive({"sh", "-c", "echo ready"}));
    EXPECT_TRUE(second.see("ready"));
    EXPECT_EQ(second.berth().finish().code, 0);
    EXPECT_EQ(second.screen().find("--workspace"), std::string::npos);
}

TEST(Terminal, IsAskedForInVainWithoutOne)
{
    const auto ended = berth({"run", "-t", "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.err, "berth: -t needs a terminal on stdin: leave it out in scripts\n");
}

} // namespace
} // namespace berth::test
