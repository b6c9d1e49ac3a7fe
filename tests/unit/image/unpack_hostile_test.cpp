#include <vector>

#include <gtest/gtest.h>

#include "unit/image/box.hpp"

namespace berth::image {
namespace {

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

} // namespace
} // namespace berth::image
