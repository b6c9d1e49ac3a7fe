// `berth exec -it` and `berth shell` on a real terminal: the test is the person.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "cli/box.hpp"
#include "cli/person.hpp"

namespace berth::test {
namespace {

using ::testing::HasSubstr;

TEST(ExecTerminal, HasOurSizeAndFollowsIt)
{
    const Box box;
    Person person(
        box.words({"-it"}, {"sh", "-c",
                            "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"}));
    EXPECT_TRUE(person.see("33 111"));
    ASSERT_TRUE(person.see("ready"));
    EXPECT_TRUE(person.raw());
    person.resize(50, 132);
    EXPECT_TRUE(person.see("50 132"));
    person.berth().signal(SIGTERM);
    EXPECT_EQ(person.berth().finish().code, 128 + SIGTERM);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(ExecTerminal, PassesTheInterruptKeyInside)
{
    const Box box;
    Person person(box.words(
        {"-it"}, {"sh", "-c", "trap 'echo caught; exit 17' INT; echo ready; while :; do sleep 0.05; done"}));
    ASSERT_TRUE(person.see("ready"));
    person.type("\x03");
    EXPECT_TRUE(person.see("caught"));
    EXPECT_EQ(person.berth().finish().code, 17);
    EXPECT_TRUE(person.modes_are_as_before());
}

TEST(ExecTerminal, IsRefusedWithoutOne)
{
    const Box box;
    const auto ended = box.exec({"-t"}, {"true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("-t needs a terminal"));
}

TEST(Shell, IsALoginShellOnATerminal)
{
    const Box box;
    Person person({"shell", box.id()});
    person.type("echo A$((20+3))B; shopt login_shell; stty size\r");
    EXPECT_TRUE(person.see("A23B"));
    EXPECT_TRUE(person.see("on"));
    EXPECT_TRUE(person.see("33 111"));
    person.type("exit 19\r");
    EXPECT_EQ(person.berth().finish().code, 19);
}

TEST(Shell, SaysWhatToUseWithoutATerminal)
{
    const auto ended = berth({"shell", "somebox"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("berth exec somebox -- sh -c"));
}

} // namespace
} // namespace berth::test
