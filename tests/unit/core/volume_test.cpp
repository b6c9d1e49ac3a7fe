#include "core/volume.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/sandbox_spec.hpp"

namespace berth {
namespace {

using ::testing::HasSubstr;

SandboxSpec with(std::vector<Volume> volumes)
{
    SandboxSpec spec;
    spec.volumes = std::move(volumes);
    return spec;
}

void expect_refused(std::vector<Volume> volumes, const std::string& words)
{
    const auto checked = validate(with(std::move(volumes)));
    ASSERT_FALSE(checked) << words;
    EXPECT_EQ(checked.error().code, Code::Invalid);
    EXPECT_THAT(checked.error().message, HasSubstr(words));
}

// Computed by another program: the offset basis and prime of 64-bit FNV-1a over the bytes.
TEST(Volume, DirectoryIsNamedAfterKeyAndName)
{
    EXPECT_EQ(volume_directory_name("key", "cache"), "e919f9657958a3b0");
    EXPECT_EQ(volume_directory_name("", ""), "af63c74c8601c8dd");
    EXPECT_EQ(volume_directory_name("\xc3\xa9", "x"), "f7aa6fc6f196b98b");
}

TEST(Volume, IsReadFromItsText)
{
    const auto plain = parse_volume("cache:/var//cache/");
    ASSERT_TRUE(plain) << plain.error().line();
    EXPECT_EQ(plain->name, "cache");
    EXPECT_EQ(plain->target, "/var/cache");
    EXPECT_TRUE(plain->writable);
    EXPECT_TRUE(parse_volume("c:/c:rw")->writable);
    EXPECT_FALSE(parse_volume("c:/c:ro")->writable);
    for (const char* bad : {"", "cache", "cache:", ":/c", "c:rel", "c:/a:/b", "c:/a:xx", " :/c", "a/b:/c"})
        EXPECT_FALSE(parse_volume(bad)) << bad;
}

TEST(Volume, IsTheSameWhereverItLies)
{
    const Volume one{.name = "c", .target = "/c", .source = "/here"};
    Volume other = one;
    other.source = "/there";
    EXPECT_EQ(one, other);
    other.writable = false;
    EXPECT_NE(one, other);
}

TEST(Volume, NeedsAName)
{
    EXPECT_TRUE(validate(with({{.name = "a b", .target = "/a"}, {.name = "c", .target = "/c"}})));
    expect_refused({{.name = "", .target = "/a"}}, "no name");
    expect_refused({{.name = " \t", .target = "/a"}}, "no name");
    expect_refused({{.name = "a/b", .target = "/a"}}, "bad volume name");
    expect_refused({{.name = std::string("a\0b", 3), .target = "/a"}}, "bad volume name");
    expect_refused({{.name = "a", .target = "/a"}, {.name = "a", .target = "/b"}}, "two volumes");
}

TEST(Volume, NeedsATargetOfItsOwn)
{
    expect_refused({{.name = "a", .target = "/"}}, "over /");
    expect_refused({{.name = "a", .target = "/proc/x"}}, "/proc");
    expect_refused({{.name = "a", .target = "/a/"}}, "plain absolute path");
    EXPECT_FALSE(validate(with({{.name = "a", .target = "a"}})));
    expect_refused({{.name = "a", .target = "/a"}, {.name = "b", .target = "/a"}}, "lie in each other");
    expect_refused({{.name = "a", .target = "/a"}, {.name = "b", .target = "/a/b"}}, "lie in each other");
    EXPECT_TRUE(validate(with({{.name = "a", .target = "/a"}, {.name = "b", .target = "/ab"}})));
}

TEST(Volume, IsNotAboveOrBelowAMount)
{
    for (const char* target : {"/m", "/m/below", "/"}) {
        auto spec = with({{.name = "a", .target = target}});
        spec.mounts.push_back({.source = "/usr", .target = "/m"});
        EXPECT_FALSE(validate(spec)) << target;
    }
}

} // namespace
} // namespace berth
