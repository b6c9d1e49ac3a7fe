// `berth cp`: files and trees in, out and across; what a sandbox hands out is hostile.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cli/box.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

unsigned mode_of(const std::string& path)
{
    struct stat st{};
    EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
    return st.st_mode & 07777;
}

TEST(Cp, TakesAFileInAndOut)
{
    const Box box;
    const std::string file = Place::here().file("a file", std::string("one\0two", 7), 0755);
    const std::string name = fs::path(file).filename();
    EXPECT_EQ(berth({"cp", file, box.id() + ":/tmp"}).code, 0);
    EXPECT_EQ(box.exec({}, {"stat", "-c", "%a %s", "/tmp/" + name}).out, "755 7\n");
    EXPECT_EQ(berth({"cp", file, box.id() + ":/tmp/new name"}).code, 0);
    EXPECT_EQ(box.exec({}, {"cat", "/tmp/new name"}).out, std::string("one\0two", 7));
    const std::string dir = Place::here().dir("out");
    EXPECT_EQ(berth({"cp", box.id() + ":/tmp/new name", dir}).code, 0);
    EXPECT_EQ(contents(dir + "/new name"), std::string("one\0two", 7));
    EXPECT_EQ(mode_of(dir + "/new name"), 0755u);
    EXPECT_EQ(berth({"cp", box.id() + ":/tmp/new name", dir + "/other"}).code, 0);
    EXPECT_EQ(contents(dir + "/other"), std::string("one\0two", 7));
    EXPECT_EQ(berth({"cp", box.id() + ":/tmp/new name", dir + "/none/"}).code, 3);
    EXPECT_EQ(berth({"cp", box.id() + ":/not/there", dir}).code, 3);
}

TEST(Cp, TakesATreeThereAndBack)
{
    const Box box;
    const std::string tree = Place::here().dir("tree");
    fs::create_directories(tree + "/sub dir/empty");
    for (const char* name : {"plain", "sub dir/ünï cödé", "sub dir/new\nline"}) {
        const int fd = ::open((tree + "/" + name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        ASSERT_GE(fd, 0);
        ASSERT_EQ(::write(fd, name, 5), 5);
        ::close(fd);
    }
    ::chmod((tree + "/plain").c_str(), 0750);
    fs::create_symlink("sub dir/ünï cödé", tree + "/link");
    fs::create_symlink("/usr/bin/env", tree + "/outside");

    EXPECT_EQ(berth({"cp", tree, box.id() + ":/tmp/copy"}).code, 0);
    EXPECT_EQ(box.shell("cat /tmp/copy/link").out, "sub d");
    EXPECT_EQ(box.shell("readlink /tmp/copy/outside").out, "/usr/bin/env\n");
    const std::string back = Place::here().dir("back");
    EXPECT_EQ(berth({"cp", box.id() + ":/tmp/copy", back}).code, 0);
    EXPECT_EQ(files_below(back + "/copy"), files_below(tree));
    EXPECT_EQ(mode_of(back + "/copy/plain"), 0750u);
    EXPECT_EQ(mode_of(back + "/copy/sub dir/new\nline"), 0600u);
    EXPECT_EQ(fs::read_symlink(back + "/copy/link"), "sub dir/ünï cödé");
    EXPECT_EQ(contents(back + "/copy/sub dir/ünï cödé"), "sub d");
    // Into a directory that is there, and what is in one.
    EXPECT_EQ(berth({"cp", tree + "/.", box.id() + ":/tmp/copy/sub dir"}).code, 0);
    EXPECT_EQ(box.shell("test -f '/tmp/copy/sub dir/plain' && echo yes").out, "yes\n");
}

TEST(Cp, PassesStreams)
{
    const Box box;
    EXPECT_EQ(run({.args = {"cp", "-", box.id() + ":/tmp/typed"}, .input = "typed bytes"}).code, 0);
    EXPECT_EQ(berth({"cp", box.id() + ":/tmp/typed", "-"}).out, "typed bytes");
    EXPECT_EQ(box.shell("mkdir /tmp/d && echo x >/tmp/d/x").code, 0);
    const auto tar = berth({"cp", box.id() + ":/tmp/d", "-"});
    EXPECT_EQ(tar.code, 0);
    EXPECT_EQ(tar.out.size() % 512, 0u);
    EXPECT_EQ(box.shell("mkdir /tmp/e").code, 0);
    EXPECT_EQ(run({.args = {"cp", "-", box.id() + ":/tmp/e"}, .input = tar.out}).code, 0);
    EXPECT_EQ(box.shell("cat /tmp/e/x").out, "x\n");
}

TEST(Cp, MovesALargeFileUnchanged)
{
    const Box box;
    std::string bytes(30u << 20, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
    const std::string file = Place::here().file("large", bytes);
    const auto in = berth({"cp", "--json", file, box.id() + ":/tmp/large"});
    EXPECT_EQ(in.code, 0);
    EXPECT_THAT(in.out, HasSubstr("\"stream_bytes\":"));
    EXPECT_EQ(in.err, "") << "progress is for terminals";
    EXPECT_TRUE(berth({"cp", box.id() + ":/tmp/large", "-"}).out == bytes);
}

TEST(Cp, AHoleStaysAHole)
{
    const Box one;
    const Box two;
    ASSERT_EQ(
        one.shell("echo begin >/tmp/sparse && truncate -s 40G /tmp/sparse && echo end >>/tmp/sparse").code,
        0);
    const std::string file = Place::here().dir("holes") + "/sparse";
    ASSERT_EQ(berth({"cp", one.id() + ":/tmp/sparse", file}).code, 0);
    struct stat st{};
    ASSERT_EQ(::stat(file.c_str(), &st), 0);
    EXPECT_EQ(st.st_size, (off_t{40} << 30) + 4);
    EXPECT_LT(st.st_blocks * 512, 1 << 20);
    ASSERT_EQ(berth({"cp", one.id() + ":/tmp/sparse", two.id() + ":/tmp/renamed"}).code, 0);
    EXPECT_EQ(two.shell("stat -c %s /tmp/renamed; test $(stat -c %b /tmp/renamed) -lt 2048 && echo small;"
                        "head -n 1 /tmp/renamed; tail -c 4 /tmp/renamed")
                  .out,
              "42949672964\nsmall\nbegin\nend\n");
}

TEST(Cp, FillsHolesInAStream)
{
    const Box box;
    ASSERT_EQ(box.shell("truncate -s 3M /tmp/f && echo middle >>/tmp/f && truncate -s 7M /tmp/f").code, 0);
    std::string expected(7u << 20, '\0');
    expected.replace(3u << 20, 7, "middle\n");
    EXPECT_TRUE(berth({"cp", box.id() + ":/tmp/f", "-"}).out == expected);
}

TEST(Cp, GoesFromOneSandboxToAnother)
{
    const Box one;
    const Box two;
    EXPECT_EQ(one.shell("mkdir -p /tmp/t/u && echo deep >/tmp/t/u/f && ln -s u/f /tmp/t/l").code, 0);
    EXPECT_EQ(berth({"cp", one.id() + ":/tmp/t", two.id() + ":/tmp/t2"}).code, 0);
    EXPECT_EQ(two.shell("cat /tmp/t2/l").out, "deep\n");
    EXPECT_EQ(berth({"cp", one.id() + ":/tmp/t/u/f", two.id() + ":/tmp/renamed"}).code, 0);
    EXPECT_EQ(two.shell("cat /tmp/renamed").out, "deep\n");
    EXPECT_NE(berth({"cp", one.id() + ":/tmp/nothing", two.id() + ":/tmp/x"}).code, 0);
    EXPECT_EQ(berth({"cp", one.id() + ":/tmp/t", two.id() + ":/no/such/dir"}).code, 3);
}

TEST(Cp, WritesNothingOutsideOfItsTarget)
{
    const Box box;
    const std::string place = Place::here().dir("target");
    const std::string outside = Place::here().file("outside", "untouched");
    // The sandbox has a directory where the host has a link, and a file of the same name below it.
    EXPECT_EQ(box.shell("mkdir -p /tmp/evil/way && echo pwned >/tmp/evil/way/file && ln -s " + outside +
                        " /tmp/evil/direct && chmod 6755 /tmp/evil/way/file")
                  .code,
              0);
    const std::string victim = Place::here().dir("victim");
    fs::create_directory(place + "/evil");
    fs::create_directory_symlink(victim, place + "/evil/way");
    const auto ended = berth({"cp", box.id() + ":/tmp/evil", place});
    EXPECT_EQ(files_below(victim), std::vector<std::string>{}) << ended.err;
    EXPECT_EQ(contents(outside), "untouched");
    if (ended.code == 0) EXPECT_EQ(mode_of(place + "/evil/way/file") & 06000u, 0u);
    // A single file takes the place of a link, and is not written through it.
    fs::create_symlink(outside, place + "/single");
    EXPECT_EQ(berth({"cp", box.id() + ":/tmp/evil/way/file", place + "/single"}).code, 0);
    EXPECT_EQ(contents(outside), "untouched");
    EXPECT_EQ(contents(place + "/single"), "pwned\n");
}

TEST(Cp, TakesTheNameOfNoDeviceAndNoPipe)
{
    const Box box;
    const std::string place = Place::here().dir("special");
    const std::string pipe = place + "/pipe";
    const std::string null = place + "/null";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    fs::create_symlink("/dev/null", null);
    for (const auto& path : {pipe, null}) {
        const auto ended = berth({"cp", box.id() + ":/etc/passwd", path});
        EXPECT_EQ(ended.code, 2) << path;
        EXPECT_THAT(ended.err, HasSubstr("no regular file: to write into it, copy to -"));
    }
    EXPECT_TRUE(fs::is_fifo(pipe));
    EXPECT_TRUE(fs::is_symlink(null));
    EXPECT_EQ(files_below(place), (std::vector<std::string>{"/null", "/pipe"}))
        << "nothing is left beside them";
    if (is_root()) return; // a failure of what follows would cost the machine its /dev/stdout
    // As with cp, stdout has a name, also where it is a file.
    const std::string file = place + "/file";
    const UniqueFd out(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(run({.args = {"cp", box.id() + ":/etc/passwd", "/dev/stdout"}, .out = out.get()}).code, 0);
    EXPECT_THAT(contents(file), HasSubstr("user:"));
}

TEST(Cp, SaysNothingOfAReaderThatHasHadEnough)
{
    const Box box;
    EXPECT_EQ(box.shell("mkdir /tmp/big && head -c 4000000 /dev/zero >/tmp/big/zeros").code, 0);
    Started copy({.args = {"cp", box.id() + ":/tmp/big", "-"}});
    ASSERT_TRUE(copy.wait_for("./"));
    copy.close_output();
    const auto ended = copy.finish();
    EXPECT_NE(ended.code, 0);
    EXPECT_EQ(ended.err, "");
}

TEST(Cp, LeavesOutWhatIsNoFile)
{
    const Box box;
    EXPECT_EQ(box.shell("mkdir /tmp/odd && mkfifo /tmp/odd/pipe && echo f >/tmp/odd/f").code, 0);
    const std::string place = Place::here().dir("odd");
    const auto ended = berth({"cp", box.id() + ":/tmp/odd", place});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("pipe is left out"));
    EXPECT_EQ(files_below(place), (std::vector<std::string>{"/odd", "/odd/f"}));
}

TEST(Cp, DropsOrRefusesLinksThatLeadOut)
{
    const Box box;
    EXPECT_EQ(
        box.shell("mkdir /tmp/l && ln -s /etc/passwd /tmp/l/p && ln -s f /tmp/l/ok && touch /tmp/l/f").code,
        0);
    const std::string place = Place::here().dir("links");
    EXPECT_EQ(berth({"cp", "--links", "drop", box.id() + ":/tmp/l", place}).code, 0);
    EXPECT_EQ(files_below(place), (std::vector<std::string>{"/l", "/l/f", "/l/ok"}));
    EXPECT_NE(berth({"cp", "--links", "refuse", box.id() + ":/tmp/l", place + "/other"}).code, 0);
}

TEST(Cp, NeedsASandboxOnOneSide)
{
    const auto ended = berth({"cp", "/etc/hostname", "/tmp/x"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(ended.err, HasSubstr("SANDBOX:/path"));
    EXPECT_EQ(berth({"cp", "nobody:/etc/hostname", "-"}).code, 3);
}

} // namespace
} // namespace berth::test
