#include "image/directory_template.hpp"

#include <gtest/gtest.h>

#include "unit/sys/temp_dir.hpp"

namespace berth::image {
namespace {

using sys::TempDir;

TEST(DirectoryTemplate, TakesADirectoryWithAProgram)
{
    const TempDir dir;
    dir.make_dir("usr");
    dir.make_dir("usr/bin");
    dir.write("usr/bin/sh", "", 0755);
    dir.link("/usr/bin/sh", "usr/bin/dash");
    dir.link(dir.path(), "link");
    EXPECT_EQ(directory_template(dir.path(), {}), dir.path());
    EXPECT_EQ(directory_template(dir / "link/usr/..", {"/nonexistent"}), dir.path())
        << "the real path counts";
}

TEST(DirectoryTemplate, FollowsLinksAsTheyWillBeInside)
{
    const TempDir dir;
    dir.make_dir("bin");
    dir.make_dir("opt");
    dir.write("opt/busybox", "", 0755);
    dir.link("/opt/busybox", "bin/sh");
    EXPECT_TRUE(directory_template(dir.path(), {}));

    const TempDir hollow;
    hollow.link("/usr", "usr");
    hollow.link("../../../../usr/bin", "bin");
    const auto refused = directory_template(hollow.path(), {});
    ASSERT_FALSE(refused) << "the programs are the host's, not the template's";
    EXPECT_EQ(refused.error().code, Code::Invalid);
}

TEST(DirectoryTemplate, SaysWhatIsWrong)
{
    const TempDir dir;
    dir.make_dir("bin");
    dir.write("bin/readme", "", 0644);
    dir.write("file", "");
    dir.make_dir("state");
    const auto why = [&](const std::string& path, const std::vector<std::string>& own = {}) {
        const auto refused = directory_template(path, own);
        return refused ? "accepted" : refused.error().line();
    };
    EXPECT_NE(why("").find("not an absolute path"), std::string::npos);
    EXPECT_NE(why("relative/path").find("not an absolute path"), std::string::npos);
    EXPECT_NE(why("/").find("cannot be a template"), std::string::npos);
    EXPECT_NE(why("/usr/..").find("cannot be a template"), std::string::npos);
    EXPECT_NE(why(dir / "missing").find("No such file"), std::string::npos);
    EXPECT_NE(why(dir / "file").find("is not a directory"), std::string::npos);
    EXPECT_NE(why(dir.path()).find("holds a program"), std::string::npos);
    EXPECT_NE(why(dir.path(), {dir / "state"}).find("overlaps"), std::string::npos);
    EXPECT_NE(why(dir / "state", {dir.path()}).find("overlaps"), std::string::npos);
    EXPECT_NE(why(dir / "state", {dir / "state"}).find("overlaps"), std::string::npos);
    EXPECT_NE(why(std::string("/a\0b", 4)).find("NUL"), std::string::npos);
}

TEST(DirectoryTemplate, ANameThatOnlyBeginsTheSameIsNoOverlap)
{
    const TempDir dir;
    dir.make_dir("state");
    dir.make_dir("state-of-the-art");
    dir.make_dir("state-of-the-art/bin");
    dir.write("state-of-the-art/bin/sh", "", 0755);
    EXPECT_TRUE(directory_template(dir / "state-of-the-art", {dir / "state"}));
}

} // namespace
} // namespace berth::image
