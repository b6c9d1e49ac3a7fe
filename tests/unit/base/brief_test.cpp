#include "base/brief.hpp"

#include <gtest/gtest.h>

namespace berth {
namespace {

using namespace std::chrono_literals;

TEST(Brief, TimesAreUtcWithMilliseconds)
{
    EXPECT_EQ(rfc3339(WallTime{}), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(rfc3339(WallTime{1'709'164'800s + 250ms + 999us}), "2024-02-29T00:00:00.250Z");
    EXPECT_EQ(rfc3339(WallTime{-1ms}), "1969-12-31T23:59:59.999Z");
}

TEST(Brief, DurationsKeepTheDigitsThatMatter)
{
    EXPECT_EQ(brief(-5s), "0s");
    EXPECT_EQ(brief(0s), "0s");
    EXPECT_EQ(brief(1'234us), "1.2ms");
    EXPECT_EQ(brief(340ms), "340ms");
    EXPECT_EQ(brief(12'900ms), "12s");
    EXPECT_EQ(brief(119s), "119s");
    EXPECT_EQ(brief(5min + 59s), "5m");
    EXPECT_EQ(brief(47h), "47h");
    EXPECT_EQ(brief(41 * 24h), "41d");
}

TEST(Brief, SizesHaveOneDecimal)
{
    EXPECT_EQ(brief(0_B), "0 B");
    EXPECT_EQ(brief(1023_B), "1023 B");
    EXPECT_EQ(brief(12'595_B), "12.3 KiB");
    EXPECT_EQ(brief(4_GiB), "4.0 GiB");
    EXPECT_EQ(brief(Bytes{~0ull}), "16777216.0 TiB");
}

} // namespace
} // namespace berth
