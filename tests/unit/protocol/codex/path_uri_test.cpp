#include "protocol/codex/path_uri.hpp"

#include <gtest/gtest.h>

namespace berth::codex {
namespace {

TEST(PathUri, IsAnAbsolutePath)
{
    EXPECT_EQ(read_path("file:///a/b"), "/a/b");
    EXPECT_EQ(read_path("FILE:///a/b"), "/a/b");
    EXPECT_EQ(read_path("file:/a"), "/a");
    EXPECT_EQ(read_path("file://localhost/a"), "/a");
    EXPECT_EQ(read_path("file:///"), "/");
    EXPECT_EQ(read_path("file:///a//b/"), "/a/b");
    EXPECT_EQ(read_path("file:///a%20b%25%23%3F"), "/a b%#?");
    EXPECT_EQ(read_path("file:///a%2Fb"), "/a/b");
    EXPECT_EQ(read_path("file:///%FF%fe"), "/\xff\xfe");
}

TEST(PathUri, ResolvesDotsBeforeAnybodyLooks)
{
    EXPECT_EQ(read_path("file:///a/../b/./c"), "/b/c");
    EXPECT_EQ(read_path("file:///a/%2e%2E/b"), "/b");
    EXPECT_EQ(read_path("file:///a%2F..%2F..%2Fetc"), "/etc");
    EXPECT_EQ(read_path("file:///../../x"), "/x");
}

TEST(PathUri, RefusesWhatIsNoPath)
{
    for (const char* uri : {"", "/a", "a", "http://x/a", "file:a", "file://", "file://user@localhost/a",
                            "file://localhost:80/a", "file:///a?q", "file:///a#f", "file:///%00",
                            "file:///a%0", "file:///a%zz", "file://[::1]/a"})
        EXPECT_FALSE(read_path(uri)) << uri;
    EXPECT_EQ(read_path("/a").error().code, Code::Invalid);
    EXPECT_FALSE(read_path(std::string("file:///a\0b", 11)));
}

TEST(PathUri, KnowsPathsOfOtherPlatforms)
{
    for (const char* uri :
         {"file://host/share/x", "file:///C:/x", "file:///c:", "file:///C|/x", "file:///C%3A/x"})
        EXPECT_EQ(read_path(uri).error().code, Code::Unsupported) << uri;
    EXPECT_EQ(read_path("file:///C:x"), "/C:x");
}

TEST(PathUri, CarriesAPathWithoutASpellingOfItsOwn)
{
    EXPECT_EQ(read_path("file:///%00/bad/path/L2EvYg"), "/a/b");
    EXPECT_FALSE(read_path("file:///%00/bad/path/L2EvYg=="));
    EXPECT_FALSE(read_path("file:///%00/bad/path/YS9i"));
    EXPECT_FALSE(read_path("file:///%00/bad/path/"));
    // As long as a path may be, whatever carries it.
    std::string longer = "file:///%00/bad/path/L";
    for (int i = 0; i < 2000; ++i) longer += "2Ev";
    EXPECT_FALSE(read_path(longer));
    // One that would read as a drive of another platform.
    EXPECT_EQ(read_path(path_uri("/C:/x")), "/C:/x");
    EXPECT_EQ(path_uri("/C:x"), "file:///C:x");
    EXPECT_FALSE(read_path("file:///%00/other"));
}

TEST(PathUri, IsWrittenSoThatItReadsBack)
{
    EXPECT_EQ(path_uri("/a b#?%"), "file:///a%20b%23%3F%25");
    for (const std::string path : {"/", "/a", "/\xff/\xc3\xa9", "/a:b@c", "/\n\t"})
        EXPECT_EQ(read_path(path_uri(path)), path);
}

} // namespace
} // namespace berth::codex
