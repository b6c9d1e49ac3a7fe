// Archives of an enemy: each rule of archive_check, and what an unpacker meets on disk.

#include <sys/resource.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scope_exit.hpp"
#include "image/archive_writer.hpp"
#include "unit/image/box.hpp"

namespace berth::image {
namespace {

using ::testing::HasSubstr;

Status judge(const std::string& tar, const ArchiveLimits& limits = {})
{
    const UniqueFd file = as_file(tar);
    const auto members = check_archive(file.get(), limits);
    if (!members) return std::unexpected(members.error());
    return {};
}

/// As a backend does it: judged, then looked at, then written.
Status put(const Box& box, const std::string& tar, const ArchiveLimits& limits = {})
{
    const UniqueFd file = as_file(tar);
    BERTH_TRY(auto members, check_archive(file.get(), limits));
    ::lseek(file.get(), 0, SEEK_SET);
    ArchiveWriter writer(box.dest.get(), std::move(members));
    BERTH_CHECK(writer.check());
    return writer.write(file.get(), limits);
}

struct Refused {
    std::string why;
    std::string tar;
};

class ArchiveRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(ArchiveRefuses, BeforeAnythingIsWritten)
{
    const Box box;
    const auto status = put(box, GetParam().tar);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::Invalid) << status.error().line();
    EXPECT_THAT(status.error().message, HasSubstr(GetParam().why));
    EXPECT_THAT(status.error().message, HasSubstr("member '"));
    EXPECT_EQ(list_names(box.dest.get())->size(), 0u);
    EXPECT_TRUE(box.neighbours_untouched());
}

RawTar good() { return RawTar().file("good", "1"); }

/// From one Linux to another every name is what it is; what leads out is refused all the same.
TEST(Archive, OfAWholeTreeHasEveryNameThatLinuxHas)
{
    const Box box;
    const auto limits = ArchiveLimits::whole_tree();
    ASSERT_TRUE(put(box, RawTar().file("a\\b", "1").file("c:d", "2").done(), limits));
    EXPECT_EQ(box.read("a\\b"), "1");
    EXPECT_EQ(box.read("c:d"), "2");
    EXPECT_EQ(judge(good().file("../x", "1").done(), limits).error().code, Code::Invalid);
    EXPECT_EQ(judge(good().file("/x", "1").done(), limits).error().code, Code::Invalid);
}

INSTANTIATE_TEST_SUITE_P(
    Each, ArchiveRefuses,
    ::testing::Values(Refused{"absolute name", good().file("/etc/x", "1").done()},
                      Refused{"'..' in the name", good().file("../x", "1").done()},
                      Refused{"'..' in the name", good().file("a/../x", "1").done()},
                      Refused{"'..' in the name", good().directory("..").done()},
                      Refused{"drive letter", good().file("C:x", "1").done()},
                      Refused{"drive letter", good().file("./c:/x", "1").done()},
                      Refused{"backslash", good().file("a\\b", "1").done()},
                      Refused{"hard link", good().hardlink("h", "good").done()},
                      Refused{"hard link", good().hardlink("h", "../../canary").done()},
                      Refused{"device", good().device("d", '3', 1, 3).done()},
                      Refused{"device", good().device("d", '4', 8, 0).done()},
                      Refused{"pipe", good().device("p", '6', 0, 0).done()},
                      Refused{"root is not a directory", good().symlink(".", "/etc").done()},
                      Refused{"root is not a directory", good().file(".", "").done()},
                      Refused{"the same name twice", good().file("./good", "2").done()},
                      Refused{"the same name twice", good().directory("d").file("d", "2").done()},
                      Refused{"the same name twice", good().symlink("l", "a").symlink("l", "b").done()},
                      Refused{"below a link", good().symlink("l", "/etc").file("l/passwd", "1").done()},
                      Refused{"below a link", good().symlink("l", ".").directory("l/a/b").done()},
                      Refused{"below a file", good().file("good/x", "1").done()},
                      Refused{"other members lie below it",
                              good().file("d/x", "1").symlink("d", "/etc").done()},
                      Refused{"other members lie below it", good().file("d/e/x", "1").file("d", "1").done()},
                      Refused{"link without a possible target", good().symlink("l", "").done()}));

TEST(ArchiveCheck, RefusesWhatIsNoArchive)
{
    const Box box;
    EXPECT_EQ(put(box, "no archive at all, but some bytes").error().code, Code::Invalid);
    const std::string whole = good().file("more", std::string(5000, 'x')).done();
    EXPECT_EQ(put(box, whole.substr(0, 3000)).error().code, Code::Invalid) << "cut off";
    EXPECT_EQ(list_names(box.dest.get())->size(), 0u) << "no partial write";
}

TEST(ArchiveCheck, CountsMembersAndSaysTheLimit)
{
    RawTar many;
    for (int i = 0; i < 11; ++i) many.file("f" + std::to_string(i), "");
    const auto status = judge(many.done(), {.members = 10});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::Exhausted);
    EXPECT_THAT(status.error().message, HasSubstr("too many members (member 'f10', limit 10, actual 11)"));
    EXPECT_TRUE(judge(many.done(), {.members = 11}));
}

/// A million would be the same: nobody reads on.
TEST(ArchiveCheck, StopsAtTheFirstMemberTooManyAlsoWhenNobodySetALimit)
{
    RawTar many;
    for (int i = 0; i <= 100'000; ++i) many.file(std::to_string(i), "");
    const std::string small = compressed(many.done(), &::archive_write_add_filter_zstd);
    EXPECT_LT(small.size(), 4u << 20) << "as an enemy would send it";
    const auto status = judge(small);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::Exhausted);
    EXPECT_THAT(status.error().message, HasSubstr("member '100000', limit 100000, actual 100001"));
}

TEST(ArchiveCheck, BoundsWhatIsExtractedAlsoWhenItIsCompressed)
{
    const std::string tar = RawTar().file("a", std::string(600, 'x')).file("b", std::string(600, 'x')).done();
    const auto status = judge(tar, {.extracted = Bytes{1000}});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::Exhausted);
    EXPECT_THAT(status.error().message, HasSubstr("member 'b', limit 1000, actual 1200"));
    EXPECT_TRUE(judge(tar, {.extracted = Bytes{1200}}));

    const std::string bomb = RawTar().file("a", std::string(8 << 20, '\0')).done();
    for (auto* filter :
         {&::archive_write_add_filter_gzip, &::archive_write_add_filter_zstd, &::archive_write_add_filter_xz})
        EXPECT_EQ(judge(compressed(bomb, filter), {.extracted = 1_MiB}).error().code, Code::Exhausted);
    // A size in the header alone is enough.
    EXPECT_EQ(judge(RawTar().header({.name = "huge", .size = 6ull << 30}).done()).error().code,
              Code::Exhausted);
}

TEST(ArchiveCheck, TreatsLinksThatLeadOutAsAsked)
{
    const std::string tar = RawTar()
                                .directory("bin")
                                .symlink("bin/python", "/usr/bin/python3")
                                .symlink("bin/up", "../../x")
                                .symlink("bin/lib", "../lib")
                                .done();
    {
        const Box box;
        ASSERT_TRUE(put(box, tar));
        EXPECT_EQ(box.link("bin/python"), "/usr/bin/python3");
        EXPECT_EQ(box.link("bin/up"), "../../x");
        EXPECT_EQ(box.link("bin/lib"), "../lib");
    }
    {
        const Box box;
        ASSERT_TRUE(put(box, tar, {.links = ExternalLinks::Drop}));
        EXPECT_EQ(*list_names(UniqueFd(::openat(box.dest.get(), "bin", O_RDONLY | O_DIRECTORY)).get()),
                  std::vector<std::string>{"lib"});
    }
    const auto refused = judge(tar, {.links = ExternalLinks::Refuse});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("leads out of the tree (member 'bin/python')"));
}

TEST(ArchiveWriterTest, NeverWritesThroughALinkThatIsThere)
{
    const Box box;
    ASSERT_EQ(::symlinkat("..", box.dest.get(), "out"), 0);
    const auto status = put(box, RawTar().file("first", "1").file("out/x", "1").done());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::Conflict);
    EXPECT_THAT(status.error().message, HasSubstr("its parent is a link (member 'out')"));
    EXPECT_TRUE(box.neighbours_untouched());
    EXPECT_EQ(*list_names(box.dest.get()), std::vector<std::string>{"out"}) << "nothing was written";
}

TEST(ArchiveWriterTest, ReplacesFilesAndLinksInTheWayAndNoDirectory)
{
    const Box box;
    ASSERT_EQ(::symlinkat("../canary", box.dest.get(), "f"), 0);
    ASSERT_EQ(::symlinkat("..", box.dest.get(), "d"), 0);
    ASSERT_TRUE(replace_file_at(box.dest.get(), "l", "old"));
    // The directory comes after what is in it.
    ASSERT_TRUE(put(box, RawTar().file("f", "new").file("d/x", "1").directory("d").symlink("l", "f").done()));
    EXPECT_EQ(box.read("f"), "new");
    EXPECT_TRUE(S_ISDIR(box.stat("d").st_mode));
    EXPECT_EQ(box.read("d/x"), "1");
    EXPECT_EQ(box.link("l"), "f");
    EXPECT_TRUE(box.neighbours_untouched());

    for (const auto& tar : {RawTar().file("other", "1").file("d", "1").done(),
                            RawTar().file("other", "1").symlink("d", "x").done()}) {
        const auto status = put(box, tar);
        ASSERT_FALSE(status);
        EXPECT_THAT(status.error().message, HasSubstr("a directory is in the way (member 'd')"));
        EXPECT_EQ(box.read("other"), "(cannot be read)") << "nothing was written";
    }
}

TEST(ArchiveWriterTest, GivesHarmlessModes)
{
    const Box box;
    ASSERT_TRUE(put(box, RawTar()
                             .file("plain", "", 0666)
                             .file("tool", "", 06777)
                             .file("odd", "", 0011)
                             .file("closed", "", 0000)
                             .directory("dir", 01777)
                             .directory("shut", 0000)
                             .file("shut/in", "1")
                             .done()));
    EXPECT_EQ(box.stat("plain").st_mode & 07777, 0644u);
    EXPECT_EQ(box.stat("tool").st_mode & 07777, 0755u);
    EXPECT_EQ(box.stat("odd").st_mode & 07777, 0600u);
    EXPECT_EQ(box.stat("closed").st_mode & 07777, 0600u);
    EXPECT_EQ(box.stat("dir").st_mode & 07777, 0755u);
    EXPECT_EQ(box.stat("shut").st_mode & 07777, 0700u);
    EXPECT_EQ(box.stat("plain").st_uid, ::geteuid());
}

/// As on a disk that is full: neither the new file nor a part of it.
TEST(Archive, WhatCannotBeWrittenCostsNoFileThatWasThere)
{
    const Box box;
    ASSERT_TRUE(put(box, RawTar().file("old", "kept").done()));
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const std::string large(64u << 10, 'x');
    const UniqueFd replaced = as_file(RawTar().file("old", large).done());
    const UniqueFd fresh = as_file(RawTar().file("new", large).done());
    const auto write = [&](int archive) -> Status {
        BERTH_TRY(auto members, check_archive(archive, {}));
        ::lseek(archive, 0, SEEK_SET);
        ArchiveWriter writer(box.dest.get(), std::move(members));
        return writer.write(archive, {});
    };
    {
        const auto handler = std::signal(SIGXFSZ, SIG_IGN);
        const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
        ScopeExit restore([&] {
            ::setrlimit(RLIMIT_FSIZE, &before);
            std::signal(SIGXFSZ, handler);
        });
        EXPECT_FALSE(write(replaced.get()));
        EXPECT_FALSE(write(fresh.get()));
    }
    EXPECT_EQ(box.read("old"), "kept");
    EXPECT_THAT(*list_names(box.dest.get()), testing::ElementsAre("old"));
    ::lseek(replaced.get(), 0, SEEK_SET);
    ASSERT_TRUE(write(replaced.get()));
    EXPECT_EQ(box.read("old"), large);
    EXPECT_THAT(*list_names(box.dest.get()), testing::ElementsAre("old"));
}

} // namespace
} // namespace berth::image
