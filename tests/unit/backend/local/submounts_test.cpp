#include "backend/local/submounts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::local {
namespace {

using testing::ElementsAre;

std::vector<std::string> below(std::string_view table, std::string_view directory)
{
    std::vector<std::string> out;
    for (const auto& one : parse_submounts(table, directory)) out.push_back(one.below);
    return out;
}

TEST(Submounts, AreFoundByTheirPlace)
{
    constexpr std::string_view table = "1 0 8:1 / / rw - ext4 d rw\n"
                                       "2 1 8:1 /x /home/me/w/b rw - ext4 d rw\n"
                                       "3 2 8:1 /y /home/me/w/b/deep/er rw - ext4 d rw\n"
                                       "4 1 0:9 / /home/me/w/a\\040blank\\134 rw - tmpfs d rw\n"
                                       "5 1 0:9 / /home/me/work rw - tmpfs d rw\n"
                                       "6 1 0:9 / /home/me/w/b rw - tmpfs again rw\n"
                                       "7 1 0:9 / /home/me/w/b.c rw - tmpfs d rw\n"
                                       "8 1 0:9 / /home/me/w rw - tmpfs d rw\n"
                                       "not a line\n";
    EXPECT_THAT(below(table, "/home/me/w"), ElementsAre("a blank\\", "b", "b.c"));
    EXPECT_THAT(below(table, "/home/me/wo"), ElementsAre());
    EXPECT_THAT(below(table, "/"), ElementsAre("home/me/w", "home/me/work"));
}

TEST(Submounts, OfThisMachineAreRead)
{
    const auto root = submounts_of("/");
    ASSERT_TRUE(root || root.error().code == Code::Exhausted);
    if (root) {
        EXPECT_FALSE(root->empty()) << "there is a /proc";
    }
}

} // namespace
} // namespace berth::local
