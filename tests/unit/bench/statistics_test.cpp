#include "bench/statistics.hpp"

#include <gtest/gtest.h>

namespace berth::bench {
namespace {

TEST(Summarize, TakesSamplesThatWereSeen)
{
    std::vector<double> samples;
    for (int i = 100; i >= 1; --i) samples.push_back(i);
    const auto s = summarize(samples);
    EXPECT_EQ(s.count, 100u);
    EXPECT_EQ(s.min, 1);
    EXPECT_EQ(s.p50, 50);
    EXPECT_EQ(s.p90, 90);
    EXPECT_EQ(s.p99, 99);
}

TEST(Summarize, OfOneIsThatOne)
{
    const auto s = summarize({7});
    EXPECT_EQ(s.min, 7);
    EXPECT_EQ(s.p50, 7);
    EXPECT_EQ(s.p99, 7);
}

TEST(Summarize, OfNoneIsNothing) { EXPECT_EQ(summarize({}).count, 0u); }

TEST(Median, IsTheMiddleOrBetweenTheTwo)
{
    EXPECT_EQ(median({3, 1, 2}), 2);
    EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_EQ(median({}), 0);
}

TEST(Spread, IsAPartOfTheSmallest)
{
    EXPECT_DOUBLE_EQ(spread({10, 14, 12}), 0.4);
    EXPECT_DOUBLE_EQ(spread({5}), 0);
    EXPECT_DOUBLE_EQ(spread({}), 0);
    EXPECT_DOUBLE_EQ(spread({0, 0}), 0);
    EXPECT_GT(spread({0, 1}), 1e9);
}

} // namespace
} // namespace berth::bench
