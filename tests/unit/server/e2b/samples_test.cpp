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
        samples.add(begun + 5s * i, SteadyTime{} + 5s * i, 1s * i, {.memory = Bytes{std::uint64_t{i} << 10}});
    ASSERT_EQ(samples.size(), Samples::kMost);
    EXPECT_EQ(samples.at(0).memory_kb, Samples::kMost);
    EXPECT_EQ(samples.newest().memory_kb, 2 * Samples::kMost - 1);
    for (std::size_t i = 1; i < samples.size(); ++i)
        ASSERT_EQ(samples.at(i).seconds, samples.at(i - 1).seconds + 5) << i;
    EXPECT_FLOAT_EQ(samples.newest().cpu_percent, 20);
}

TEST(Samples, TheFirstHasNothingToBeComparedWith)
{
    Samples samples;
    EXPECT_TRUE(samples.empty());
    samples.add(WallTime{5s}, SteadyTime{5s}, 3s, {});
    EXPECT_EQ(samples.newest().cpu_percent, 0);
    samples.add(WallTime{10s}, SteadyTime{10s}, std::nullopt, {});
    samples.add(WallTime{15s}, SteadyTime{15s}, 4s, {});
    EXPECT_EQ(samples.newest().cpu_percent, 0) << "the one before does not know";
}

TEST(Samples, HoldMoreThanAnyMachineHas)
{
    Samples samples;
    EXPECT_FALSE(samples.disk_total());
    const Bytes huge{std::uint64_t{3} << 40};
    samples.add(WallTime{5s}, SteadyTime{5s}, {},
                {.memory = huge, .cache = 5_MiB, .disk = huge, .disk_total = Bytes{2 * huge.count}});
    EXPECT_EQ(std::uint64_t{samples.newest().memory_kb} << 10, huge.count);
    EXPECT_EQ(samples.newest().cache_kb, 5 * 1024);
    EXPECT_EQ(std::uint64_t{samples.newest().disk_mb} << 20, huge.count);
    samples.add(WallTime{10s}, SteadyTime{10s}, {}, {.memory = Bytes{UINT64_MAX}});
    EXPECT_EQ(samples.newest().memory_kb, UINT32_MAX) << "too much is the most, not little";
    ASSERT_TRUE(samples.disk_total()) << "what is not known this time was known before";
    EXPECT_EQ(samples.disk_total()->count, 2 * huge.count);
}

} // namespace
} // namespace berth::e2b
