#include "image/tree_reader.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/archive_writer.hpp"
#include "image/unpack.hpp"
#include "unit/image/box.hpp"

namespace berth::image {
namespace {

using ::testing::ElementsAre;

struct Packed {
    std::string tar;
    std::vector<std::string> names;
    std::vector<std::string> left_out;
};

/// A tree as a tar, in pieces of a size that no block has.
Result<Packed> pack(const std::string& path, ArchiveOptions options = {}, const std::string& name = "x")
{
    Packed out;
    options.left_out = [&](const std::string& at, std::string_view why) {
        out.left_out.push_back(fmt::format("{}: {}", at, why));
    };
    UniqueFd start(::open(path.c_str(), O_PATH | O_CLOEXEC));
    BERTH_TRY(auto reader, TreeReader::open(std::move(start), name, std::move(options), {}));
    for (bool more = true; more;) {
        std::string piece;
        BERTH_TRY(more, reader.read(piece, 700));
        out.tar += piece;
    }
    const UniqueFd file = as_file(out.tar);
    BERTH_TRY(auto tar, TarReader::open(file.get(), 1_GiB));
    for (TarEntry entry;;) {
        BERTH_TRY(const bool another, tar.next(entry));
        if (!another) break;
        out.names.push_back(entry.name);
    }
    return out;
}

Status unpack(const std::string& tar, int dest, const ArchiveLimits& limits = {})
{
    const UniqueFd file = as_file(tar);
    BERTH_TRY(auto members, check_archive(file.get(), limits));
    ::lseek(file.get(), 0, SEEK_SET);
    ArchiveWriter writer(dest, std::move(members));
    BERTH_CHECK(writer.check());
    return writer.write(file.get(), limits);
}

TEST(TreeReaderTest, GoesThereAndBackAgain)
{
    const sys::TempDir from;
    const std::string deep(90, 'd');
    const std::string long_name(200, 'n');
    from.make_dir("empty");
    from.make_dir("bin");
    for (std::string path = deep, i; i.size() < 4; path += "/" + deep, i += "i") {
        from.make_dir(path);
        from.write(path + "/" + long_name, path);
    }
    from.write("plain", "content");
    from.write("zero", "");
    from.write("gl*b[a]?", "glob");
    from.write("\xc3\xbc\xe6\x97\xa5 with space", "unicode");
    from.write("new\nline", "n");
    from.write("big", std::string(1'000'000, 'b'));
    from.write("tool", "#!/bin/sh\n");
    ::chmod((from / "tool").c_str(), 0755);
    ::chmod((from / "plain").c_str(), 0640);
    ASSERT_EQ(::symlink("/usr/bin/python3", (from / "bin/python").c_str()), 0);
    ASSERT_EQ(::symlink(std::string(300, 't').c_str(), (from / "bin/long").c_str()), 0);
    ASSERT_EQ(::link((from / "plain").c_str(), (from / "second").c_str()), 0);

    const auto packed = pack(from.path());
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_EQ(packed->names.front(), "./");
    EXPECT_EQ(packed->tar.size() % 512, 0u);
    const Box box;
    const auto unpacked = unpack(packed->tar, box.dest.get());
    ASSERT_TRUE(unpacked) << unpacked.error().line();

    EXPECT_EQ(box.read("plain"), "content");
    EXPECT_EQ(box.stat("plain").st_mode & 07777, 0640u);
    EXPECT_EQ(box.stat("tool").st_mode & 07777, 0755u);
    EXPECT_EQ(box.read("second"), "content");
    EXPECT_NE(box.stat("second").st_ino, box.stat("plain").st_ino) << "a file of its own";
    EXPECT_EQ(box.stat("zero").st_size, 0);
    EXPECT_EQ(box.read("gl*b[a]?"), "glob");
    EXPECT_EQ(box.read("\xc3\xbc\xe6\x97\xa5 with space"), "unicode");
    EXPECT_EQ(box.read("new\nline"), "n");
    EXPECT_EQ(box.read("big"), std::string(1'000'000, 'b'));
    EXPECT_TRUE(S_ISDIR(box.stat("empty").st_mode));
    EXPECT_EQ(box.link("bin/python"), "/usr/bin/python3");
    EXPECT_EQ(box.link("bin/long"), std::string(300, 't'));
    const std::string deepest = fmt::format("{0}/{0}/{0}/{0}", deep);
    EXPECT_EQ(box.read(deepest + "/" + long_name), deepest);
    struct stat before{};
    ASSERT_EQ(::lstat((from / "plain").c_str(), &before), 0);
    EXPECT_EQ(box.stat("plain").st_mtim.tv_nsec, before.st_mtim.tv_nsec);

    const auto again = pack(from.path());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->tar, packed->tar) << "equal trees give equal archives";
}

TEST(TreeReaderTest, AWholeTreeHasItsLinksPipesAndAttributes)
{
    const sys::TempDir from, to;
    from.write("first", "content");
    ASSERT_EQ(::link((from / "first").c_str(), (from / "second").c_str()), 0);
    ASSERT_EQ(::mkfifo((from / "pipe").c_str(), 0640), 0);
    from.make_dir("dir");
    const std::string value("a\0\n=b", 5);
    for (const char* name : {"first", "dir"})
        ASSERT_EQ(::setxattr((from / name).c_str(), "user.word", value.data(), value.size(), 0), 0);
    ArchiveOptions whole;
    whole.whole = true;
    const auto packed = pack(from / ".", whole);
    ASSERT_TRUE(packed) << packed.error().line();
    const UniqueFd file = as_file(packed->tar);
    const UniqueFd root(::open((to / ".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto unpacked = unpack_tar(file.get(), root.get(), {.ids = Ids::Maker});
    ASSERT_TRUE(unpacked) << unpacked.error().line();
    struct stat first{}, second{}, pipe{};
    ASSERT_EQ(::stat((to / "first").c_str(), &first), 0);
    ASSERT_EQ(::stat((to / "second").c_str(), &second), 0);
    EXPECT_EQ(first.st_ino, second.st_ino);
    ASSERT_EQ(::stat((to / "pipe").c_str(), &pipe), 0);
    EXPECT_TRUE(S_ISFIFO(pipe.st_mode));
    for (const char* name : {"first", "dir"}) {
        std::string got(16, '\0');
        const auto size = ::getxattr((to / name).c_str(), "user.word", got.data(), got.size());
        ASSERT_EQ(size, 5) << name;
        EXPECT_EQ(got.substr(0, 5), value);
    }
}

/// A byte in each of `count` pieces of a file, and as much of nothing between them as is asked for.
void write_pieces(const std::string& path, off_t count, off_t apart)
{
    const UniqueFd file(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    for (off_t i = 0; i < count; ++i) ASSERT_EQ(::pwrite(file.get(), "x", 1, i * apart), 1);
}

/// What a limit on the disk of a sandbox counts is not to grow on its way out.
TEST(TreeReaderTest, ManyHolesAreNotFilledIn)
{
    const sys::TempDir from;
    write_pieces(from / "sparse", 12'000, off_t{32} << 10);
    const auto packed = pack(from.path());
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_LT(packed->tar.size(), 12'000u * (8u << 10));
    const Box box;
    ASSERT_TRUE(unpack(packed->tar, box.dest.get()));
    EXPECT_EQ(box.stat("sparse").st_size, 11'999 * (32 << 10) + 1);
}

TEST(TreeReaderTest, HolesThatCannotBeToldAreNotFilledInEither)
{
    const sys::TempDir from;
    write_pieces(from / "sparse", 50'001, off_t{1} << 20);
    const auto packed = pack(from.path());
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().code, Code::Exhausted);
    EXPECT_THAT(packed.error().message, ::testing::HasSubstr("holes"));
}

TEST(TreeReaderTest, KeepsHolesAsHoles)
{
    const sys::TempDir from;
    const off_t size = off_t{64} << 20;
    {
        const UniqueFd file(::open((from / "sparse").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        ASSERT_EQ(::pwrite(file.get(), "middle", 6, 10 << 20), 6);
        ASSERT_EQ(::ftruncate(file.get(), size), 0);
        const UniqueFd hole(::open((from / "hole").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        ASSERT_EQ(::ftruncate(hole.get(), 1 << 20), 0);
    }
    const auto packed = pack(from.path());
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_LT(packed->tar.size(), 1u << 20);
    EXPECT_THAT(packed->names, ElementsAre("./", "hole", "sparse"));
    const Box box;
    const auto unpacked = unpack(packed->tar, box.dest.get());
    ASSERT_TRUE(unpacked) << unpacked.error().line();
    EXPECT_EQ(box.stat("sparse").st_size, size);
    EXPECT_EQ(box.stat("hole").st_size, 1 << 20);
    EXPECT_LT(box.stat("sparse").st_blocks * 512, 1 << 20);
    char middle[6] = {};
    const UniqueFd file(::openat(box.dest.get(), "sparse", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::pread(file.get(), &middle[0], 6, 10 << 20), 6);
    EXPECT_EQ(std::string_view(&middle[0], 6), "middle");
    // A hole counts with its size.
    EXPECT_EQ(unpack(packed->tar, box.dest.get(), {.extracted = 1_MiB}).error().code, Code::Exhausted);
}

TEST(TreeReaderTest, LeavesOutWhatIsSkippedLiterally)
{
    const sys::TempDir from;
    for (const char* dir : {"a", "a/b", "a/bc", "x", "x/a"}) from.make_dir(dir);
    for (const char* file : {"a/b/f", "a/bc/f", "x/a/f", "*", "star"}) from.write(file, "");
    const auto packed = pack(from.path(), {.skip = {"./a/b/", "*", "missing"}});
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_THAT(packed->names, ElementsAre("./", "a/", "a/bc/", "a/bc/f", "star", "x/", "x/a/", "x/a/f"));
}

TEST(TreeReaderTest, TellsWhatATarDoesNotHold)
{
    const sys::TempDir from;
    ASSERT_EQ(::mkfifo((from / "pipe").c_str(), 0600), 0);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::snprintf(&name.sun_path[0], sizeof name.sun_path, "%s", (from / "socket").c_str());
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    ASSERT_EQ(::symlink("pipe", (from / "to_pipe").c_str()), 0);
    const auto packed = pack(from.path());
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_THAT(packed->names, ElementsAre("./", "to_pipe"));
    EXPECT_THAT(packed->left_out, ElementsAre("pipe: a pipe", "socket: a socket"));
}

TEST(TreeReaderTest, OneFileIsOneMember)
{
    const sys::TempDir from;
    from.write("f", "content");
    const auto packed = pack(from / "f", {}, "f");
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_THAT(packed->names, ElementsAre("f"));
    const Box box;
    ASSERT_TRUE(unpack(packed->tar, box.dest.get()));
    EXPECT_EQ(box.read("f"), "content");
}

TEST(TreeReaderTest, AFileThatShrinksIsFilledUp)
{
    const sys::TempDir from;
    from.write("f", std::string(3'000'000, 'x'));
    UniqueFd start(::open(from.path().c_str(), O_PATH | O_CLOEXEC));
    auto reader = TreeReader::open(std::move(start), "x", {}, {});
    ASSERT_TRUE(reader);
    std::string tar;
    ASSERT_TRUE(reader->read(tar, 2000));
    ASSERT_EQ(::truncate((from / "f").c_str(), 1'000'000), 0);
    for (bool more = true; more;) {
        const auto step = reader->read(tar, tar.size() + 100'000);
        ASSERT_TRUE(step);
        more = *step;
    }
    const Box box;
    ASSERT_TRUE(unpack(tar, box.dest.get()));
    EXPECT_EQ(box.stat("f").st_size, 3'000'000);
}

} // namespace
} // namespace berth::image
