#include "distribution/challenge.hpp"

#include <gtest/gtest.h>

namespace berth::distribution {
namespace {

TEST(Challenge, OfABearerNamesItsRealm)
{
    const auto read = parse_challenge(R"(Bearer realm="https://auth.example.org/token",service="a, b",)"
                                      R"(scope="repository:x/y:pull")");
    ASSERT_TRUE(read);
    EXPECT_EQ(read->scheme, Challenge::Scheme::Bearer);
    EXPECT_EQ(read->realm, "https://auth.example.org/token");
    EXPECT_EQ(read->service, "a, b");
    EXPECT_EQ(read->scope, "repository:x/y:pull");
}

TEST(Challenge, MayBeBasic)
{
    EXPECT_EQ(parse_challenge("basic realm=\"x\"")->scheme, Challenge::Scheme::Basic);
    EXPECT_EQ(parse_challenge("Basic")->scheme, Challenge::Scheme::Basic);
}

TEST(Challenge, RefusesWhatItCannotAnswer)
{
    for (const char* header : {"", "Digest realm=x", "Bearer", "Bearer service=x", "Bearer realm=\"a\r\nb\"",
                               "Bearer realm=\"", "Bearer =", "Bearer realm"})
        EXPECT_FALSE(parse_challenge(header)) << header;
}

TEST(Challenge, ATokenBecomesNoSecondHeader)
{
    EXPECT_EQ(*read_token(R"({"token":"abc"})"), "abc");
    EXPECT_EQ(*read_token(R"({"access_token":"def"})"), "def");
    EXPECT_FALSE(read_token(R"({"token":"a\r\nX: y"})"));
    EXPECT_FALSE(read_token("{}"));
    EXPECT_FALSE(read_token("no"));
}

} // namespace
} // namespace berth::distribution
