#include "sys/file_attributes.hpp"

#include <sys/xattr.h>

#include <gtest/gtest.h>

#include "temp_dir.hpp"

namespace berth::sys {
namespace {

constexpr auto kPrefix = "user.t.";

/// A file system without them has nothing to test.
bool has_attributes(const TempDir& dir)
{
    dir.write("probe", "x");
    return ::setxattr((dir / "probe").c_str(), "user.probe", "1", 1, 0) == 0;
}

TEST(FileAttributes, AreReplacedAndReadBackAndOthersStay)
{
    const TempDir dir;
    if (!has_attributes(dir))
        GTEST_SKIP() << "no user attributes here: set TMPDIR to a file system that has them";
    dir.write("a", "x");
    dir.write("b", "x");
    ASSERT_EQ(::setxattr((dir / "a").c_str(), "user.else", "kept", 4, 0), 0);
    ASSERT_TRUE(write_attributes(dir.fd(), "/a", kPrefix, {{"one", "1"}, {"two", "2"}}));
    ASSERT_TRUE(write_attributes(dir.fd(), "/a", kPrefix, {{"two", "3"}}));
    ASSERT_EQ(::setxattr((dir / "a").c_str(), "user.t.raw", "\xff", 1, 0), 0);
    const auto read = read_attributes(dir.fd(), "/", {"a", "b", "none", "../a", ""}, kPrefix);
    ASSERT_TRUE(read) << read.error().line();
    ASSERT_EQ(read->size(), 1u);
    EXPECT_EQ(read->at("a"), (AttributeSet{{"two", "3"}}));
    char value[8];
    EXPECT_EQ(::getxattr((dir / "a").c_str(), "user.else", &value[0], sizeof value), 4);
}

TEST(FileAttributes, ALinkLeadsNowhereElse)
{
    const TempDir dir, other;
    if (!has_attributes(dir))
        GTEST_SKIP() << "no user attributes here: set TMPDIR to a file system that has them";
    other.write("victim", "x");
    ASSERT_EQ(::symlink((other / "victim").c_str(), (dir / "link").c_str()), 0);
    EXPECT_FALSE(write_attributes(dir.fd(), "/link", kPrefix, {{"one", "1"}}));
    char value[8];
    EXPECT_LT(::getxattr((other / "victim").c_str(), "user.t.one", &value[0], sizeof value), 0);
}

} // namespace
} // namespace berth::sys
