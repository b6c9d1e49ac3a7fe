#include "backend/local/usr_mounts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace berth::local {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(UsrMounts, AreFoundByTheirPlace)
{
    EXPECT_EQ(mounted_below("/pro"), ""); // a prefix is no directory
    EXPECT_THAT(mounted_below(""), HasSubstr("/"));
}

TEST(UsrMounts, LetOnlyLayersOfUsrLocalBeShown)
{
    char path[] = "/tmp/berth-usr-XXXXXX";
    ASSERT_NE(::mkdtemp(&path[0]), nullptr);
    const std::filesystem::path dir = &path[0];
    {
        const auto state = StateDir::open(dir / "state");
        ASSERT_TRUE(state) << state.error().line();
        for (const char* upper : {"empty/u2", "local/u2/local/bin", "changed/u2/local", "changed/u2/bin"})
            std::filesystem::create_directories(state->layers() + "/" + upper);
        EXPECT_TRUE(check_only_local(*state, {"empty", "local"}, "/usr/m"));
        EXPECT_THAT(layers_with_local(*state, {"local", "empty", "changed"}), ElementsAre(0, 2));
        const auto refused = check_only_local(*state, {"local", "changed"}, "/usr/m");
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::Unsupported);
        EXPECT_THAT(refused.error().message, HasSubstr("/usr/bin"));
        EXPECT_FALSE(check_only_local(*state, {"gone"}, "/usr/m"));
    }
    std::filesystem::remove_all(dir);
}

} // namespace
} // namespace berth::local
