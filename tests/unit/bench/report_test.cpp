#include "bench/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

Report sample()
{
    Report report{.rounds = 200, .repeats = 2};
    report.machine = {
        .kernel = "6.1", .cores = 4, .root = true, .state_file_system = "ext4", .cgroup_layout = "v2"};
    Table table{.name = "cold"};
    table.series = {{.name = "RA", .repeats = {{1e6}, {1e6}}},
                    {.name = "sandbox", .repeats = {{2.5e6}, {2.5e6}}},
                    {.name = "bwrap", .repeats = {{5e6}, {5e6}}},
                    {.name = "idle", .unit = Unit::Bytes, .repeats = {{300 * 1024.0}}}};
    table.claims = {
        {.subject = "sandbox", .reference = "RA", .bar = Bar{.limit = 2.7, .stretch = 2.1}},
        {.subject = "sandbox", .reference = "bwrap", .relation = Relation::Lead, .bar = Bar{.limit = 2.4}},
        {.subject = "idle",
         .relation = Relation::Amount,
         .bar = Bar{.limit = 400 * 1024.0, .stretch = 350 * 1024.0}}};
    table.skipped = {{.name = "nsjail", .reason = "not in PATH", .remedy = "apt-get install nsjail"}};
    report.tables.push_back(std::move(table));
    return report;
}

/// The line of a table that starts with this name.
std::string line_of(const std::string& text, const std::string& name)
{
    const auto at = text.find("\n  " + name);
    if (at == std::string::npos) return {};
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(RenderText, TellsTimesRatioBarAndVerdictOnOneLine)
{
    const auto text = render_text(sample());
    const auto line = line_of(text, "sandbox");
    for (const char* part : {"2.500 ms", "2.50 × RA", "≤ 2.7", "pass"}) EXPECT_THAT(line, HasSubstr(part));
    EXPECT_THAT(line, Not(HasSubstr("stretch")));
    EXPECT_THAT(text, HasSubstr("2.00 × faster than bwrap"));
    EXPECT_THAT(text, HasSubstr("FAIL"));
    const auto idle = line_of(text, "idle");
    for (const char* part : {"300 KiB", "≤ 400 KiB", "pass, stretch too"}) EXPECT_THAT(idle, HasSubstr(part));
}

TEST(RenderText, ListsWhatWasSkippedAndTheConditions)
{
    const auto text = render_text(sample());
    EXPECT_THAT(text, HasSubstr("skipped nsjail: not in PATH (apt-get install nsjail)"));
    EXPECT_THAT(text, HasSubstr("Linux 6.1, 4 cores, root"));
    EXPECT_THAT(text, HasSubstr("(ext4), control groups v2"));
    EXPECT_THAT(text, HasSubstr("2 bars passed, 1 failed, 0 inconclusive"));
}

TEST(RenderText, BoundsTheListOfProblems)
{
    auto report = sample();
    report.tables[0].problems.assign(25, "left behind by cold: process 1 (x)");
    const auto text = render_text(report);
    EXPECT_THAT(text, HasSubstr("and 5 more"));
}

TEST(Tally, AProblemIsAFailureEvenWhenEveryBarPasses)
{
    auto report = sample();
    report.tables[0].claims.erase(report.tables[0].claims.begin() + 1);
    EXPECT_TRUE(tally(report).ok());
    report.tables[0].problems.emplace_back("a leak");
    EXPECT_FALSE(tally(report).ok());
}

TEST(RenderJson, IsADocumentThatParsesAndSaysTheSame)
{
    const auto parsed = json::parse(json::dump(render_json(sample())));
    ASSERT_TRUE(parsed) << parsed.error().line();
    const auto& root = parsed->as_object();
    EXPECT_EQ(root.at("machine").as_object().at("cgroup_layout").as_string(), "v2");
    EXPECT_EQ(root.at("total").as_object().at("failed").to_number<int>(), 1);
    EXPECT_FALSE(root.at("total").as_object().at("ok").as_bool());
    const auto& table = root.at("tables").as_array().at(0).as_object();
    EXPECT_EQ(table.at("series").as_array().size(), 4u);
    const auto& claim = table.at("claims").as_array().at(0).as_object();
    EXPECT_EQ(claim.at("verdict").as_string(), "pass");
    EXPECT_DOUBLE_EQ(claim.at("value").to_number<double>(), 2.5);
    EXPECT_DOUBLE_EQ(claim.at("bar").to_number<double>(), 2.7);
    EXPECT_EQ(table.at("skipped").as_array().at(0).as_object().at("name").as_string(), "nsjail");
}

TEST(Show, PicksTheUnitPeopleRead)
{
    EXPECT_EQ(show(850, Unit::Nanoseconds), "850 ns");
    EXPECT_EQ(show(12'340, Unit::Nanoseconds), "12.3 µs");
    EXPECT_EQ(show(1'250'000, Unit::Nanoseconds), "1.250 ms");
    EXPECT_EQ(show(820e6, Unit::BytesPerSecond), "820 MB/s");
    EXPECT_EQ(show(150 * 1024, Unit::Bytes), "150 KiB");
    EXPECT_EQ(show(2, Unit::Count), "2");
}

TEST(FileSystemOf, TakesTheMountNearestToThePath)
{
    const std::string mounts = "20 1 8:1 / / rw - ext4 /dev/sda rw\n"
                               "21 20 0:5 / /var rw shared:1 - xfs /dev/sdb rw\n"
                               "22 21 0:6 / /var/lib rw - tmpfs tmpfs rw\n";
    EXPECT_EQ(file_system_of("/var/lib/berth", mounts), "tmpfs");
    EXPECT_EQ(file_system_of("/var/library", mounts), "xfs");
    EXPECT_EQ(file_system_of("/home", mounts), "ext4");
    EXPECT_EQ(file_system_of("/home", ""), "unknown");
}

} // namespace
} // namespace berth::bench
