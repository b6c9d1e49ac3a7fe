#include "distribution/reference.hpp"

#include <gtest/gtest.h>

namespace berth::distribution {
namespace {

constexpr const char* kDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(Reference, SaysEverythingAPersonLeavesOut)
{
    const auto full = [](const char* text) { return parse_reference(text)->text(); };
    EXPECT_EQ(full("alpine"), "docker.io/library/alpine:latest");
    EXPECT_EQ(full("alpine:3.20"), "docker.io/library/alpine:3.20");
    EXPECT_EQ(full("me/tool"), "docker.io/me/tool:latest");
    EXPECT_EQ(full("index.docker.io/me/tool:1"), "docker.io/me/tool:1");
    EXPECT_EQ(full("localhost/x"), "localhost/x:latest");
    EXPECT_EQ(full("127.0.0.1:5000/a/b/c:v1"), "127.0.0.1:5000/a/b/c:v1");
    EXPECT_EQ(full("ghcr.io/o/r:Tag_1"), "ghcr.io/o/r:Tag_1");
    EXPECT_EQ(full((std::string("a@sha256:") + kDigest).c_str()),
              std::string("docker.io/library/a@sha256:") + kDigest);
}

TEST(Reference, AsksForTheDigestWhereThereIsOne)
{
    EXPECT_EQ(parse_reference("a:1")->wanted(), "1");
    EXPECT_EQ(parse_reference(std::string("a:1@sha256:") + kDigest)->wanted(),
              std::string("sha256:") + kDigest);
}

TEST(Reference, OfItselfIsTheSame)
{
    for (const char* text : {"alpine", "localhost:5000/x/y:1", "quay.io/a/b"}) {
        const auto once = parse_reference(text);
        const auto again = parse_reference(once->text());
        ASSERT_TRUE(again) << text;
        EXPECT_EQ(*again, *once);
    }
}

TEST(Reference, RefusesWhatCouldBecomeAnotherPath)
{
    for (const char* text :
         {"", "/", "a//b", "a/../b", "A", "a:", "a:b/c", "a b", "a?x", "a#x", "a%2e", "-a", "a@sha256:12",
          "a@md5:12", "ho st.io/a", "user@host.io/a", "host.io/a\nX: y", "a/"})
        EXPECT_FALSE(parse_reference(text)) << text;
}

TEST(Reference, KnowsThisMachine)
{
    for (const char* name : {"localhost", "localhost:5000", "127.0.0.1:1", "[::1]:5000"})
        EXPECT_TRUE(is_loopback(name)) << name;
    for (const char* name : {"localhost.example.org", "example.org:127", "docker.io"})
        EXPECT_FALSE(is_loopback(name)) << name;
}

} // namespace
} // namespace berth::distribution
