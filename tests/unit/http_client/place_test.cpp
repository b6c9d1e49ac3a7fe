#include <gtest/gtest.h>

#include "http_client/place.hpp"

namespace berth::http_client {
namespace {

TEST(Url, TellsHostPortAndPath)
{
    const auto plain = parse_url("http://127.0.0.1:7600");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->place.host, "127.0.0.1");
    EXPECT_EQ(plain->place.port, 7600);
    EXPECT_FALSE(plain->place.tls);
    const auto secure = parse_url("https://api.e2b.app/");
    ASSERT_TRUE(secure);
    EXPECT_TRUE(secure->place.tls && secure->place.verify);
    EXPECT_EQ(secure->place.port, 443);
    EXPECT_EQ(secure->path, "");
    EXPECT_EQ(secure->place.authority(), "api.e2b.app");
    EXPECT_EQ(parse_url("http://[::1]:80/a/b/")->path, "/a/b");
    EXPECT_EQ(parse_url("http://[::1]:81")->place.authority(), "[::1]:81");
}

TEST(Url, ThatCouldMeanSomethingElseIsRefused)
{
    for (const char* bad : {"", "host", "ftp://host", "http://", "http://a b", "http://host:0",
                            "http://host:99999", "http://user@host", "http://host?x", "http://host#x",
                            "http://host\r\nX: y", "http://[::1", "http://[::1]x", "http://ho%73t"})
        EXPECT_FALSE(parse_url(bad)) << bad;
}

} // namespace
} // namespace berth::http_client
