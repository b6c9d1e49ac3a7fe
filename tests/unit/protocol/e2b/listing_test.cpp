#include "protocol/e2b/listing.hpp"

#include <gtest/gtest.h>

#include "base/brief.hpp"
#include "base/encoding.hpp"

namespace berth::e2b {
namespace {

using Texts = std::map<std::string, std::string>;

TEST(E2bListing, MetadataIsEncodedThreeTimes)
{
    // As the SDK sends {"a":"b c","k&1":"v=é"}; the query itself is decoded by whoever reads requests.
    const auto query = form_decode("a%3Db%252520c%26k%2525261%3Dv%25253D%2525C3%2525A9");
    ASSERT_TRUE(query);
    const auto read = read_metadata_filter(*query);
    ASSERT_TRUE(read) << read.error().line();
    EXPECT_EQ(*read, (Texts{{"a", "b c"}, {"k&1", "v=é"}}));
}

TEST(E2bListing, OurOwnFilterIsReadBack)
{
    const Texts wanted{{"a", "b c"}, {"k&1", "v=é%+"}};
    const auto back = read_metadata_filter(metadata_filter(wanted));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, wanted);
}

TEST(E2bListing, RefusesMetadataThatIsNotPairs)
{
    for (const auto* const bad : {"a", "a=b=c", "a=b&c", "%zz=1"})
        EXPECT_FALSE(read_metadata_filter(bad)) << bad;
    EXPECT_TRUE(read_metadata_filter("")->empty());
}

TEST(E2bListing, TokensComeBack)
{
    const PageToken token{.started = WallTime(std::chrono::nanoseconds(1'700'000'000'123'456'789)),
                          .id = "iabc",
                          .ascending = true};
    const auto back = parse_page_token(encode(token));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, token);
    for (const auto* const bad : {"", "!", "YWJj", "LTFfX2k"}) EXPECT_FALSE(parse_page_token(bad)) << bad;
}

TEST(E2bListing, AQueryHasDefaultsAndBounds)
{
    const auto none = read_list_query({});
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->running && none->paused);
    EXPECT_EQ(none->limit, 100u);
    const auto some = read_list_query({{"state", "paused"}, {"limit", "2"}, {"order", "asc"}});
    ASSERT_TRUE(some);
    EXPECT_FALSE(some->running);
    EXPECT_TRUE(some->ascending);
    const auto both = read_list_query({{"state", "running"}, {"state", "paused"}});
    ASSERT_TRUE(both);
    EXPECT_TRUE(both->running && both->paused);
    EXPECT_FALSE(read_list_query({{"limit", "0"}}));
    EXPECT_FALSE(read_list_query({{"limit", "101"}}));
    EXPECT_FALSE(read_list_query({{"state", "dead"}}));
    EXPECT_FALSE(read_list_query({{"nextToken", "nonsense"}}));
}

TEST(E2bListing, TimesHaveAnyFractionAndOffset)
{
    EXPECT_EQ(rfc3339(*parse_rfc3339("2026-03-01T12:00:00.25Z")), "2026-03-01T12:00:00.250Z");
    EXPECT_EQ(*parse_rfc3339("2026-03-01T13:00:00+01:00"), *parse_rfc3339("2026-03-01T12:00:00Z"));
    for (const auto* const bad :
         {"2026-03-01", "2026-13-01T12:00:00Z", "2026-03-01T12:00:00", "9999-03-01T12:00:00Z"})
        EXPECT_FALSE(parse_rfc3339(bad)) << bad;
}

} // namespace
} // namespace berth::e2b
