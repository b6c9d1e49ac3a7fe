#include "bench/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::bench {
namespace {

using testing::ElementsAre;

Table table_of(std::vector<std::vector<double>> reference, std::vector<std::vector<double>> subject)
{
    Table table{.name = "t"};
    table.series = {{.name = "R", .repeats = std::move(reference)},
                    {.name = "s", .repeats = std::move(subject)}};
    return table;
}

Claim claim(Relation relation, double limit, double stretch = 0)
{
    return {.subject = "s",
            .reference = "R",
            .relation = relation,
            .bar = Bar{.limit = limit, .stretch = stretch}};
}

TEST(Judge, TakesTheMedianOfTheRatiosOfEachRepeat)
{
    auto table = table_of({{10}, {10}, {10}}, {{20}, {90}, {25}});
    table.claims = {claim(Relation::Cost, 2.5, 2.0)};
    const auto judged = judge(table, 1);
    ASSERT_EQ(judged.size(), 1u);
    EXPECT_THAT(judged[0].values, ElementsAre(2, 9, 2.5));
    EXPECT_DOUBLE_EQ(judged[0].value, 2.5);
    EXPECT_DOUBLE_EQ(judged[0].at_best, 2.0);
    EXPECT_EQ(judged[0].verdict, Verdict::Pass);
    EXPECT_FALSE(judged[0].stretch);
}

TEST(Judge, FailsAboveTheBarAndPassesOnIt)
{
    auto table = table_of({{10}}, {{27}});
    table.claims = {claim(Relation::Cost, 2.6), claim(Relation::Cost, 2.7)};
    const auto judged = judge(table, 1);
    EXPECT_EQ(judged[0].verdict, Verdict::Fail);
    EXPECT_EQ(judged[1].verdict, Verdict::Pass);
}

TEST(Judge, LeadIsHowMuchFasterTheSubjectIs)
{
    auto table = table_of({{30}}, {{10}});
    table.claims = {claim(Relation::Lead, 2.4, 3), claim(Relation::Lead, 3.1)};
    const auto judged = judge(table, 1);
    EXPECT_DOUBLE_EQ(judged[0].value, 3);
    EXPECT_EQ(judged[0].verdict, Verdict::Pass);
    EXPECT_TRUE(judged[0].stretch);
    EXPECT_EQ(judged[1].verdict, Verdict::Fail);
}

TEST(Judge, ShareOfARateIsGoodWhenLargeAndBestWhenHighest)
{
    auto table = table_of({{100, 100, 120}}, {{80, 80, 90}});
    for (auto& series : table.series) series.unit = Unit::BytesPerSecond;
    table.claims = {claim(Relation::Share, 0.8), claim(Relation::Share, 0.81)};
    const auto judged = judge(table, 1);
    EXPECT_DOUBLE_EQ(judged[0].value, 0.8);
    EXPECT_DOUBLE_EQ(judged[0].at_best, 0.75);
    EXPECT_EQ(judged[0].verdict, Verdict::Pass);
    EXPECT_EQ(judged[1].verdict, Verdict::Fail);
}

TEST(Judge, AmountNeedsNoReference)
{
    auto table = table_of({{1}, {9}}, {{100}, {300}});
    table.claims = {{.subject = "s", .relation = Relation::Amount, .bar = Bar{.limit = 200}}};
    const auto judged = judge(table, 1);
    ASSERT_EQ(judged.size(), 1u);
    EXPECT_DOUBLE_EQ(judged[0].value, 200);
    EXPECT_EQ(judged[0].verdict, Verdict::Pass);
}

TEST(Judge, AReferenceThatMovedMakesItInconclusive)
{
    auto steady = table_of({{10}, {14}}, {{10}, {14}});
    steady.claims = {claim(Relation::Cost, 2)};
    EXPECT_EQ(judge(steady, 1)[0].verdict, Verdict::Pass);
    auto moved = table_of({{10}, {14.1}}, {{10}, {14}});
    moved.claims = {claim(Relation::Cost, 2)};
    EXPECT_EQ(judge(moved, 1)[0].verdict, Verdict::Inconclusive);
}

TEST(Judge, LooseningWidensTheBarInItsDirection)
{
    auto table = table_of({{10}}, {{30}});
    table.claims = {claim(Relation::Cost, 2), claim(Relation::Lead, 0.5)};
    EXPECT_EQ(judge(table, 1)[0].verdict, Verdict::Fail);
    EXPECT_EQ(judge(table, 1)[1].verdict, Verdict::Fail);
    const auto loose = judge(table, 1.5);
    EXPECT_EQ(loose[0].verdict, Verdict::Pass);
    EXPECT_DOUBLE_EQ(loose[0].claim.bar->limit, 3);
    EXPECT_EQ(loose[1].verdict, Verdict::Pass);
}

TEST(Judge, RepeatsWithoutSamplesAreLeftOut)
{
    auto table = table_of({{10}, {}, {10}}, {{}, {50}, {20}});
    table.claims = {claim(Relation::Cost, 3)};
    const auto judged = judge(table, 1);
    ASSERT_EQ(judged.size(), 1u);
    EXPECT_THAT(judged[0].values, ElementsAre(2));
}

TEST(Judge, ClaimsAboutWhatWasNotMeasuredAreLeftOut)
{
    auto table = table_of({{10}}, {{20}});
    table.claims = {{.subject = "s", .reference = "bwrap"}, {.subject = "nothing", .reference = "R"}};
    EXPECT_TRUE(judge(table, 1).empty());
}

} // namespace
} // namespace berth::bench
