#include "server/e2b/samples.hpp"

#include <gtest/gtest.h>

namespace berth::e2b {
namespace {

using namespace std::chrono_literals;

TEST(Samples, AreThoseOfTheLastHour)
{
    Samples samples;
    const WallTime begun{1'700'000'000s};
    for (std::uint32_t i = 0; i < 2 * Samples::kMost; ++i)
        samples.add(begun + 5s * i, SteadyTime{} + 5s * i, 1s * i, i);
    ASSERT_EQ(samples.size(), Samples::kMost);
    EXPECT_EQ(samples.at(0).memory, Samples::kMost);
    EXPECT_EQ(samples.newest().memory, 2 * Samples::kMost - 1);
    for (std::size_t i = 1; i < samples.size(); ++i)
        ASSERT_EQ(samples.at(i).seconds, samples.at(i - 1).seconds + 5) << i;
    EXPECT_FLOAT_EQ(samples.newest().cpu_percent, 20);
}

TEST(Samples, TheFirstHasNothingToBeComparedWith)
{
    Samples samples;
    EXPECT_TRUE(samples.empty());
    samples.add(WallTime{5s}, SteadyTime{5s}, 3s, 1);
    EXPECT_EQ(samples.newest().cpu_percent, 0);
    samples.add(WallTime{10s}, SteadyTime{10s}, std::nullopt, 1);
    samples.add(WallTime{15s}, SteadyTime{15s}, 4s, 1);
    EXPECT_EQ(samples.newest().cpu_percent, 0) << "the one before does not know";
}

} // namespace
} // namespace berth::e2b
