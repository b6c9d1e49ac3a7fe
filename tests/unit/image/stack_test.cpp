#include "image/stack.hpp"

#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <gtest/gtest.h>

#include "unit/sys/temp_dir.hpp"

namespace berth::image {
namespace {

/// Two layers: "top" over "low".
class StackTest : public ::testing::Test {
protected:
    StackTest()
    {
        for (const char* name : {"top", "low", "top/etc", "low/etc", "low/usr", "low/usr/share"})
            dir.make_dir(name);
    }
    Stack stack() { return *Stack::open({dir / "top", dir / "low"}); }
    void hide(const std::string& name) { ASSERT_EQ(::mknod((dir / name).c_str(), S_IFCHR, 0), 0); }
    std::string read(const std::string& path)
    {
        auto text = stack().read(path, 1_KiB);
        return text ? *text : text.error().line();
    }
    bool has(const std::string& path)
    {
        const auto found = stack().find(path);
        EXPECT_TRUE(found) << found.error().line();
        return found && found->has_value();
    }
    sys::TempDir dir;
};

TEST_F(StackTest, ShowsTheTopmost)
{
    dir.write("low/etc/passwd", "low");
    EXPECT_EQ(read("etc/passwd"), "low");
    dir.write("top/etc/passwd", "top");
    EXPECT_EQ(read("/etc/passwd"), "top");
    EXPECT_EQ(read("etc/none"), "");
    EXPECT_EQ(read("etc/passwd/below"), "");
    EXPECT_EQ(read("etc"), "");
}

TEST_F(StackTest, WhiteoutsHide)
{
    dir.write("low/etc/passwd", "low");
    hide("top/etc/passwd");
    EXPECT_FALSE(has("etc/passwd"));
    hide("top/usr");
    EXPECT_FALSE(has("usr/share"));
}

TEST_F(StackTest, FilesHideDirectoriesAndOpaqueOnesWhatIsBelow)
{
    dir.write("low/etc/passwd", "low");
    dir.write("top/usr", "a file");
    EXPECT_FALSE(has("usr/share"));
    if (::setxattr((dir / "top/etc").c_str(), opaque_attribute(), "y", 1, 0) != 0)
        GTEST_SKIP() << "no such attributes on this file system";
    EXPECT_FALSE(has("etc/passwd"));
    EXPECT_TRUE(has("etc"));
}

TEST_F(StackTest, LinksLeadThroughTheLayersAndNeverOut)
{
    dir.write("low/usr/share/accounts", "found");
    dir.write("outside", "secret");
    dir.link("../../../../usr/share/accounts", "top/etc/passwd");
    EXPECT_EQ(read("etc/passwd"), "found");
    dir.link("/usr/share", "top/etc/share");
    EXPECT_EQ(read("etc/share/accounts"), "found");
    EXPECT_EQ(stack().find("etc/share")->value().path, "usr/share");
    dir.link("../../outside", "top/etc/out");
    EXPECT_EQ(read("etc/out"), "");
    dir.link("loop", "top/etc/loop");
    EXPECT_FALSE(stack().find("etc/loop"));
    EXPECT_TRUE(S_ISLNK(stack().find("etc/loop", Stack::LastLink::Keep)->value().st.st_mode));
    EXPECT_EQ(stack().find("..")->value().path, "");
}

} // namespace
} // namespace berth::image
