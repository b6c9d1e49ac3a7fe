#include "image/unpack.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <gtest/gtest.h>

#include "unit/image/box.hpp"

namespace berth::image {
namespace {

TEST(UnpackTar, GivesWhatTheArchiveHolds)
{
    Box box;
    const auto report = box.unpack(RawTar()
                                       .directory("./", 0755)
                                       .directory("./usr/", 0555)
                                       .file("./usr/tool", "#!", 0755)
                                       .symlink("./bin", "usr")
                                       .hardlink("./usr/other", "./usr/tool")
                                       .header({.name = "./pipe", .type = '6', .mode = 0620})
                                       .file("/absolute", "inside")
                                       .done());
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(report->entries, 7u);
    EXPECT_EQ(report->bytes, 8u);
    EXPECT_EQ(box.read("usr/tool"), "#!");
    EXPECT_EQ(box.stat("usr/tool").st_mode, S_IFREG | 0755u);
    EXPECT_EQ(box.stat("usr/tool").st_mtim.tv_sec, 1'000'000'000);
    EXPECT_EQ(box.stat("usr/tool").st_ino, box.stat("usr/other").st_ino);
    EXPECT_EQ(box.stat("usr").st_mode, S_IFDIR | 0555u) << "a read-only directory was filled first";
    EXPECT_EQ(box.stat("usr").st_mtim.tv_sec, 1'000'000'000);
    EXPECT_EQ(box.link("bin"), "usr");
    EXPECT_EQ(box.stat("pipe").st_mode, S_IFIFO | 0620u);
    EXPECT_EQ(box.read("absolute"), "inside");
}

TEST(UnpackTar, KnowsTheUsualCompressions)
{
    const std::string tar = RawTar().file("a", "content").done();
    for (auto* filter : {&::archive_write_add_filter_gzip, &::archive_write_add_filter_zstd,
                         &::archive_write_add_filter_xz, &::archive_write_add_filter_bzip2}) {
        Box box;
        const auto report = box.unpack(compressed(tar, filter));
        ASSERT_TRUE(report) << report.error().line();
        EXPECT_EQ(box.read("a"), "content");
    }
}

TEST(UnpackTar, KeepsTheBytesOfNames)
{
    const std::string utf8 = "\xc3\xbcmlaut";
    const std::string bytes = "not\xff\xfeutf8";
    Box box;
    const auto report = box.unpack(RawTar()
                                       .pax("path", utf8)
                                       .file("fallback", "1")
                                       .file(bytes, "2")
                                       .file("new\nline", "3")
                                       .long_name(std::string(120, 'n'))
                                       .file("fallback", "4")
                                       .done());
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(box.read(utf8), "1");
    EXPECT_EQ(box.read(bytes), "2");
    EXPECT_EQ(box.read("new\nline"), "3");
    EXPECT_EQ(box.read(std::string(120, 'n')), "4");
}

TEST(UnpackTar, CutsANameAtItsNul)
{
    Box box;
    ASSERT_TRUE(box.unpack(RawTar().pax("path", std::string("front\0/../../x", 14)).file("n", "1").done()));
    EXPECT_EQ(box.read("front"), "1");
    EXPECT_TRUE(box.neighbours_untouched());
}

TEST(UnpackTar, TheLastOfSeveralWinsAndNoOtherNameChanges)
{
    Box box;
    const auto report = box.unpack(RawTar()
                                       .file("a", "first")
                                       .hardlink("b", "a")
                                       .file("b", "second")
                                       .symlink("link", "../canary")
                                       .file("link", "now a file")
                                       .file("turns", "file")
                                       .directory("turns")
                                       .file("turns/into", "directory")
                                       .directory("empty")
                                       .symlink("empty", "a")
                                       .hardlink("a", "a")
                                       .done());
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(box.read("a"), "first");
    EXPECT_EQ(box.read("b"), "second");
    EXPECT_EQ(box.read("link"), "now a file");
    EXPECT_EQ(box.read("turns/into"), "directory");
    EXPECT_EQ(box.link("empty"), "a");
    EXPECT_TRUE(box.neighbours_untouched());
}

TEST(UnpackTar, LeavesOutTheNodesEveryDevHas)
{
    Box box;
    const auto report =
        box.unpack(RawTar().device("./dev/null", '3', 1, 3).device("dev/console", '3', 5, 1).done());
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(report->skipped, 2u);
    EXPECT_FALSE(box.dir.has("dest/dev/null"));
}

TEST(UnpackTar, KeepsHolesAndPutsThemOnTheBill)
{
    // GNU's old sparse header: at 386 the map (offset, size), at 483 the real size.
    std::string tar = RawTar().header({.name = "sparse", .type = 'S', .size = 512}).so_far();
    const auto number = [&](std::size_t at, unsigned long long value) {
        char text[13];
        std::snprintf(text, sizeof text, "%011llo", value);
        std::memcpy(tar.data() + at, text, 12);
    };
    std::memcpy(tar.data() + 257, "ustar  ", 8);
    number(386, 1u << 20);
    number(398, 512);
    number(410, 4u << 20);
    number(422, 0);
    number(483, 4u << 20);
    unsigned sum = 0;
    std::memset(tar.data() + 148, ' ', 8);
    for (const char c : tar) sum += static_cast<unsigned char>(c);
    std::snprintf(tar.data() + 148, 7, "%06o", sum);
    tar += std::string(512, 'd') + std::string(1024, '\0');

    Box box;
    const auto report = box.unpack(tar);
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(report->bytes, 4u << 20);
    EXPECT_EQ(box.stat("sparse").st_size, 4 << 20);
    EXPECT_LT(box.stat("sparse").st_blocks, 1024);
    EXPECT_EQ(read_file_at(box.dest.get(), "sparse", 8_MiB)->substr(1u << 20, 3), "ddd");

    Box small;
    const auto refused = small.unpack(tar, {.max_bytes = 1_MiB});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Exhausted);
}

TEST(UnpackTar, AsAnOrdinaryUserSetIdBitsAndOwnersStayOut)
{
    Box box;
    ASSERT_TRUE(box.unpack(RawTar()
                               .header({.name = "su", .size = 0, .mode = 06755, .uid = 4'000'00, .gid = 7})
                               .directory("tmp", 01777)
                               .directory("locked", 0)
                               .header({.name = "odd", .mode = 07777777})
                               .done()));
    EXPECT_EQ(box.stat("su").st_mode, S_IFREG | 0755u);
    EXPECT_EQ(box.stat("su").st_uid, ::geteuid());
    EXPECT_EQ(box.stat("tmp").st_mode, S_IFDIR | 01777u);
    EXPECT_EQ(box.stat("locked").st_mode, S_IFDIR | 0u);
    EXPECT_EQ(box.stat("odd").st_mode & 07777, 01777u);
}

TEST(UnpackTar, AsRootOwnersAndSetIdBitsAreTheArchives)
{
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: sudo unit_image --gtest_filter=UnpackTar.*";
    Box box;
    const auto report =
        box.unpack(RawTar()
                       .header({.name = "su", .size = 0, .mode = 06755, .uid = 12, .gid = 65535})
                       .header({.name = "dir", .type = '5', .mode = 02770, .uid = 1000, .gid = 5})
                       .header({.name = "link", .type = '2', .link = "su", .uid = 33})
                       .done(),
                   {.ids = Ids::Sandbox});
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(box.stat("su").st_mode, S_IFREG | 06755u);
    EXPECT_EQ(box.stat("su").st_uid, 12u);
    EXPECT_EQ(box.stat("su").st_gid, 65535u);
    EXPECT_EQ(box.stat("dir").st_mode, S_IFDIR | 02770u);
    EXPECT_EQ(box.stat("dir").st_uid, 1000u);
    EXPECT_EQ(box.stat("link").st_uid, 33u);

    const auto refused =
        box.unpack(RawTar().header({.name = "far", .uid = 65536}).done(), {.ids = Ids::Sandbox});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Invalid);
    EXPECT_NE(refused.error().line().find("far"), std::string::npos);
}

TEST(UnpackTar, DropsAttributesThatMeanSomethingToTheKernel)
{
    Box box;
    const std::string probe = box.dir / "probe";
    box.dir.write("probe", "");
    if (::setxattr(probe.c_str(), "user.probe", "1", 1, 0) != 0)
        GTEST_SKIP() << "no user attributes on this file system: TMPDIR=/on/ext4 unit_image";
    const auto report = box.unpack(RawTar()
                                       .pax("SCHILY.xattr.user.kept", "yes")
                                       .file("kept", "")
                                       .pax("SCHILY.xattr.user.overlay.opaque", "y")
                                       .file("opaque", "")
                                       .pax("SCHILY.xattr.trusted.overlay.opaque", "y")
                                       .file("trusted", "")
                                       .pax("SCHILY.xattr.security.capability", "\1")
                                       .file("capable", "")
                                       .done());
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(report->dropped_xattrs, 3u);
    char value[16];
    EXPECT_EQ(::getxattr((box.dir / "dest/kept").c_str(), "user.kept", value, sizeof value), 3);
    for (const char* name : {"opaque", "trusted", "capable"})
        EXPECT_EQ(::listxattr((box.dir / ("dest/" + std::string(name))).c_str(), value, sizeof value), 0)
            << name;
}

TEST(UnpackTar, RefusesAFileThroughAnAbsoluteLink)
{
    Box box;
    const auto report = box.unpack(RawTar().symlink("l", box.dir.path()).file("l/canary", "evil").done());
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::Invalid);
    EXPECT_TRUE(box.neighbours_untouched());
}

TEST(UnpackTar, NamesTheEntryItRefuses)
{
    Box box;
    const auto report = box.unpack(RawTar().file("fine", "").file("a/../../evil\x1b[31m", "").done());
    ASSERT_FALSE(report);
    const std::string line = report.error().line();
    EXPECT_NE(line.find("a/../../evil"), std::string::npos) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << "a name is never shown raw";
}

TEST(UnpackTar, TakesAsManyEntriesAsAllowed)
{
    Box box;
    RawTar tar;
    for (int i = 0; i < 100; ++i) tar.file(std::to_string(i), "");
    const auto report = box.unpack(tar.done(), {.max_entries = 100});
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(report->entries, 100u);
}

} // namespace
} // namespace berth::image
