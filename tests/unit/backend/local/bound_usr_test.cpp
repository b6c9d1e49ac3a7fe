#include "backend/local/bound_usr.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <cstdlib>
#include <filesystem>

namespace berth::local {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BoundUsr, ShowsOnlyLayersOfUsrLocal)
{
    char path[] = "/tmp/berth-usr-XXXXXX";
    ASSERT_NE(::mkdtemp(&path[0]), nullptr);
    const std::filesystem::path dir = &path[0];
    {
        const auto state = StateDir::open(dir / "state");
        ASSERT_TRUE(state) << state.error().line();
        const std::string at = state->layers() + "/";
        for (const char* upper : {"empty/u2", "local/u2/local/bin", "changed/u2/local", "changed/u2/bin"})
            std::filesystem::create_directories(at + upper);
        EXPECT_TRUE(check_only_local({at + "empty", at + "local"}, "/usr/m"));
        const auto refused = check_only_local({at + "local", at + "changed"}, "/usr/m");
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::Unsupported);
        EXPECT_THAT(refused.error().message, HasSubstr("/usr/bin"));
        EXPECT_FALSE(check_only_local({at + "gone"}, "/usr/m"));

        EXPECT_THAT(local_layers(*state, {"local", "empty", "changed"}).in, ElementsAre(0, 2));
        EXPECT_FALSE(local_layers(*state, {"local", "empty", "changed"}).hidden);
        if (::setxattr((at + "local/u2/local").c_str(), "user.overlay.opaque", "y", 1, 0) == 0) {
            EXPECT_THAT(local_layers(*state, {"local", "empty", "changed"}).in, ElementsAre(0));
            EXPECT_TRUE(local_layers(*state, {"local", "empty", "changed"}).hidden);
        }
    }
    std::filesystem::remove_all(dir);
}

} // namespace
} // namespace berth::local
