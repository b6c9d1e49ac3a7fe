#include "backend/exec_server/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::exec_server {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Config, TakesAnAddressWithPathAndQuery)
{
    const auto plain = read_config({{"BERTH_EXEC_SERVER_URL", "ws://127.0.0.1:4567"}});
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->target, "/");
    EXPECT_FALSE(plain->place.tls);
    EXPECT_EQ(plain->place.port, 4567);
    const auto secure = read_config({{"BERTH_EXEC_SERVER_URL", "wss://box.example/codex?key=s3cr3t"},
                                     {"BERTH_EXEC_SERVER_TOKEN", "t0ken"},
                                     {"BERTH_EXEC_SERVER_ROOT", "/srv//boxes/"}});
    ASSERT_TRUE(secure);
    EXPECT_TRUE(secure->place.tls);
    EXPECT_EQ(secure->place.port, 443);
    EXPECT_EQ(secure->target, "/codex?key=s3cr3t");
    EXPECT_EQ(secure->token, "t0ken");
    EXPECT_EQ(secure->root, "/srv/boxes");
    EXPECT_THAT(secure->place.text(), Not(HasSubstr("s3cr3t")));
}

TEST(Config, RefusesWhatIsNoAddressAndShowsNoSecret)
{
    EXPECT_THAT(read_config({}).error().message, HasSubstr("BERTH_EXEC_SERVER_URL"));
    for (const char* url :
         {"http://x", "ws://", "ws://a b", "ws://x#y", "wss://u@x", "ws://x:0", "127.0.0.1:1"}) {
        const auto config = read_config({{"BERTH_EXEC_SERVER_URL", url}});
        EXPECT_FALSE(config) << url;
    }
    const auto bad =
        read_config({{"BERTH_EXEC_SERVER_URL", "ws://x"}, {"BERTH_EXEC_SERVER_TOKEN", "s3cr3t\n"}});
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().line(), Not(HasSubstr("s3cr3t")));
    EXPECT_FALSE(read_config({{"BERTH_EXEC_SERVER_URL", "ws://x"}, {"BERTH_EXEC_SERVER_ROOT", "here"}}));
    EXPECT_FALSE(read_config({{"BERTH_EXEC_SERVER_URL", "ws://x"}, {"BERTH_EXEC_SERVER_ROOT", "/"}}));
}

} // namespace
} // namespace berth::exec_server
