#include "image/unpack.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <functional>

#include <gtest/gtest.h>

#include "unit/image/tar_builder.hpp"
#include "unit/sys/temp_dir.hpp"

namespace berth::image {
namespace {

using sys::TempDir;

/// A directory to unpack into, with a neighbour that no archive may touch.
struct Box {
    Box()
    {
        dir.make_dir("dest");
        dir.write("canary", "untouched");
        dest = UniqueFd(::open((dir / "dest").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    Result<UnpackReport> unpack(const std::string& tar, UnpackOptions options = {})
    {
        const UniqueFd file = as_file(tar);
        return unpack_tar(file.get(), dest.get(), options);
    }
    [[nodiscard]] struct stat stat(const std::string& name) const
    {
        struct stat st{};
        if (::fstatat(dest.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
            ADD_FAILURE() << "no " << name;
        return st;
    }
    [[nodiscard]] std::string read(const std::string& name) const
    {
        return read_file_at(dest.get(), name).value_or("(cannot be read)");
    }
    [[nodiscard]] std::string link(const std::string& name) const
    {
        char buffer[4096];
        const ssize_t n = ::readlinkat(dest.get(), name.c_str(), buffer, sizeof buffer);
        return n < 0 ? "(no link)" : std::string(buffer, static_cast<std::size_t>(n));
    }
    /// Nothing but dest and the canary, and the canary as it was, with one name.
    [[nodiscard]] bool neighbours_untouched() const
    {
        struct stat st{};
        struct stat above{};
        ::lstat((dir / "canary").c_str(), &st);
        ::lstat(dir.path().c_str(), &above);
        return read_file(dir / "canary").value_or("") == "untouched" && st.st_nlink == 1 &&
               (st.st_mode & 07777) == 0644 && above.st_nlink == 3 && !dir.has("x");
    }

    TempDir dir;
    UniqueFd dest;
};

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

struct Hostile {
    const char* what;
    std::string tar;
    Code code;
    UnpackOptions options{};
};

std::string deep(int levels)
{
    std::string path;
    for (int i = 0; i < levels; ++i) path += "d/";
    return path + "f";
}

std::string many_files(int count)
{
    RawTar tar;
    for (int i = 0; i < count; ++i) tar.file(std::to_string(i), "");
    return tar.done();
}

/// A sparse map that goes on for ever, as pax 1.0 keeps it in front of the content.
std::string endless_sparse_map()
{
    std::string map = "9000000\n";
    while (map.size() < (24u << 20)) map += "0\n0\n";
    RawTar tar;
    const std::string records = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
                                "29 GNU.sparse.realsize=16384\n";
    tar.header({.name = "pax", .type = 'x', .size = records.size()}).content(records);
    tar.header({.name = "map", .size = map.size()}).content(map);
    return compressed(tar.done(), &::archive_write_add_filter_gzip);
}

std::vector<Hostile> hostile_archives()
{
    const std::string good = RawTar().file("good", "content").done();
    const std::string zeros(4u << 20, '\0');
    auto gzip = &::archive_write_add_filter_gzip;
    const UnpackOptions small{.max_bytes = 1_MiB, .max_entries = 100};
    return {
        {"file through a link up", RawTar().symlink("l", "..").file("l/x", "evil").done(), Code::Invalid},
        {"file through a link inside", RawTar().directory("d").symlink("l", "d").file("l/x", "").done(),
         Code::Invalid},
        {"directory through a link", RawTar().symlink("l", "..").directory("l/x").done(), Code::Invalid},
        {"link through a link", RawTar().symlink("l", "..").symlink("l/x", "y").done(), Code::Invalid},
        {"fifo through a link", RawTar().symlink("l", "..").header({.name = "l/x", .type = '6'}).done(),
         Code::Invalid},
        {"hard link through a link", RawTar().symlink("l", "..").hardlink("h", "l/canary").done(),
         Code::Invalid},
        {"hard link made through a link",
         RawTar().file("f", "").symlink("l", "..").hardlink("l/x", "f").done(), Code::Invalid},
        {"hard link up", RawTar().hardlink("h", "../canary").done(), Code::Invalid},
        {"hard link to an absolute path", RawTar().hardlink("h", "/etc/passwd").done(), Code::Invalid},
        {"hard link to a link", RawTar().symlink("l", "../canary").hardlink("h", "l").done(), Code::Invalid},
        {"hard link to a directory", RawTar().directory("d").hardlink("h", "d").done(), Code::Invalid},
        {"hard link to a fifo", RawTar().header({.name = "p", .type = '6'}).hardlink("h", "p").done(),
         Code::Invalid},
        {"hard link to the root", RawTar().hardlink("h", "./").done(), Code::Invalid},
        {"hard link to a later file", RawTar().hardlink("h", "f").file("f", "").done(), Code::Invalid},
        {"directory turned link, then a file below it",
         RawTar().directory("d").symlink("d", "..").file("d/x", "").done(), Code::Invalid},
        {"full directory turned link", RawTar().file("d/f", "").symlink("d", "..").file("d/x", "").done(),
         Code::Invalid},
        {"full directory turned file", RawTar().file("d/f", "").file("d", "").done(), Code::Invalid},
        {"file below a file", RawTar().file("f", "").file("f/x", "").done(), Code::Invalid},
        {"name up", RawTar().file("../x", "").done(), Code::Invalid},
        {"name up behind a directory", RawTar().file("a/../../x", "").done(), Code::Invalid},
        {"name up and absolute", RawTar().file("/../x", "").done(), Code::Invalid},
        {"name that is only up", RawTar().directory("..").done(), Code::Invalid},
        {"pax name up", RawTar().pax("path", "../x").file("n", "").done(), Code::Invalid},
        {"pax link up", RawTar().pax("linkpath", "../canary").hardlink("h", "n").done(), Code::Invalid},
        {"root that is a file", RawTar().file("./", "").file(".", "").done(), Code::Invalid},
        {"root that is a link", RawTar().symlink(".", "/").file("x", "").done(), Code::Invalid},
        {"no name", RawTar().file("", "").done(), Code::Invalid},
        {"link without target", RawTar().symlink("l", "").done(), Code::Invalid},
        {"memory device", RawTar().device("dev/mem", '3', 1, 1).done(), Code::Invalid},
        {"disk", RawTar().device("dev/null", '4', 1, 3).done(), Code::Invalid},
        {"null device elsewhere", RawTar().device("x/null", '3', 1, 3).done(), Code::Invalid},
        {"disk named like the null device", RawTar().device("dev/null", '3', 8, 0).done(), Code::Invalid},
        {"whiteout", RawTar().device("usr", '3', 0, 0).done(), Code::Invalid},
        {"declared size", RawTar().header({.name = "big", .size = 077777777777}).done(), Code::Exhausted,
         small},
        {"sizes together",
         RawTar().file("a", zeros.substr(0, 800'000)).file("b", zeros.substr(0, 800'000)).done(),
         Code::Exhausted, small},
        {"compressed zeros", compressed(RawTar().file("a", zeros).done(), gzip), Code::Exhausted, small},
        {"sparse map without end", endless_sparse_map(), Code::Exhausted},
        {"compressed twice", compressed(compressed(good, gzip), gzip), Code::Invalid},
        {"too many entries", many_files(101), Code::Exhausted, small},
        {"too many implied directories", RawTar().file(deep(100), "").file("n", "").done(), Code::Exhausted,
         small},
        {"too deep", RawTar().file(deep(257), "").done(), Code::Invalid},
        {"component too long", RawTar().file(std::string(256, 'n'), "").done(), Code::Invalid},
        {"path too long", RawTar().file(std::string(5000, '/') + "a/" + deep(3000), "").done(),
         Code::Invalid},
        {"cut off in the content", RawTar().file("f", zeros).done().substr(0, 100'000), Code::Invalid},
        {"cut off in a header", RawTar().file("a", "b").file("f", "g").done().substr(0, 1300), Code::Invalid},
        {"cut off in the compression", compressed(good, gzip).substr(0, 40), Code::Invalid},
        {"no archive", "#!/bin/sh\nexit 0\n" + std::string(2000, 'x'), Code::Invalid},
        {"nothing", "", Code::Invalid},
    };
}

TEST(UnpackTar, RefusesHostileArchivesAndTouchesNothingOutside)
{
    for (const auto& hostile : hostile_archives()) {
        SCOPED_TRACE(hostile.what);
        Box box;
        const auto report = box.unpack(hostile.tar, hostile.options);
        EXPECT_FALSE(report);
        if (!report) EXPECT_EQ(report.error().code, hostile.code) << report.error().line();
        EXPECT_TRUE(box.neighbours_untouched());
    }
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
    const auto report = box.unpack(many_files(100), {.max_entries = 100});
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_EQ(report->entries, 100u);
}

} // namespace
} // namespace berth::image
