#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/e2b/config.hpp"

namespace berth::e2b_client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Config, IsTheCloudsUnlessSomethingElseIsNamed)
{
    const auto config = read_config({{"E2B_API_KEY", "e2b_00"}});
    ASSERT_TRUE(config);
    EXPECT_EQ(config->api.place.text(), "https://api.e2b.app");
    EXPECT_TRUE(config->api.place.verify);
    EXPECT_EQ(config->template_id, "base");
    EXPECT_EQ(envd_origin(*config, "iabc", "")->place.text(), "https://sandbox.e2b.app");
    EXPECT_EQ(envd_origin(*config, "iabc", "own.example:8443")->place.text(),
              "https://49983-iabc.own.example:8443");
}

TEST(Config, TakesOneAddressForEverything)
{
    const auto config = read_config({{"E2B_API_KEY", "e2b_00"},
                                     {"E2B_API_URL", "http://127.0.0.1:7600"},
                                     {"E2B_SANDBOX_URL", "http://127.0.0.1:7600/"},
                                     {"E2B_TEMPLATE_ID", "old"},
                                     {"E2B_TEMPLATE", "new"}});
    ASSERT_TRUE(config);
    EXPECT_EQ(envd_origin(*config, "iabc", "ignored.example")->place.port, 7600);
    EXPECT_EQ(config->template_id, "new");
}

TEST(Config, KeepsTimesWithinWhatServersTake)
{
    const auto time = [](const char* ms) {
        return read_config({{"E2B_API_KEY", "k"}, {"E2B_TIMEOUT_MS", ms}})->timeout;
    };
    EXPECT_EQ(time("1"), 15s);
    EXPECT_EQ(time("61500"), 62s);
    EXPECT_EQ(time("999999999999"), 24h);
    EXPECT_FALSE(read_config({{"E2B_API_KEY", "k"}, {"E2B_TIMEOUT_MS", "soon"}}));
    EXPECT_FALSE(read_config({{"E2B_API_KEY", "k"}, {"E2B_TIMEOUT_MS", "-1"}}));
}

TEST(Config, SaysWhatIsMissingAndNeverTheKey)
{
    EXPECT_THAT(read_config({}).error().message, HasSubstr("E2B_API_KEY"));
    const auto bad = read_config({{"E2B_API_KEY", "se cret\r\nX: y"}});
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().message, Not(HasSubstr("se cret")));
    EXPECT_FALSE(read_config({{"E2B_API_KEY", "k"}, {"E2B_API_URL", "127.0.0.1"}}));
}

} // namespace
} // namespace berth::e2b_client
