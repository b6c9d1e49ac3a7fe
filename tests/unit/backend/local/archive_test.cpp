#include <sys/stat.h>

#include <gmock/gmock.h>

#include "backend_place.hpp"
#include "image/tar_reader.hpp"
#include "unit/image/tar_builder.hpp"

namespace berth::local {
namespace {

using ::testing::HasSubstr;

class ArchiveTest : public BackendPlace {
protected:
    static Result<std::string> pack(const SandboxHandle& sandbox, FilePath from, ArchiveOptions options = {})
    {
        std::string tar;
        const ByteSink sink = [&](std::string_view bytes) -> Status {
            tar += bytes;
            return {};
        };
        auto packed = run_task(backend_->read_archive(sandbox, std::move(from), std::move(options), sink));
        if (!packed) return std::unexpected(std::move(packed).error());
        return tar;
    }
    static Status unpack(const SandboxHandle& sandbox, FilePath to, const std::string& tar,
                         ArchiveLimits limits = {})
    {
        std::size_t at = 0;
        const ByteSource source = [&]() -> Result<std::string> {
            std::string piece = tar.substr(at, 10'000);
            at += piece.size();
            return piece;
        };
        return run_task(backend_->write_archive(sandbox, std::move(to), source, limits));
    }
};

TEST_F(ArchiveTest, CarriesATreeFromOneSandboxToAnother)
{
    const Made one, other;
    const auto made = run(one.handle, shell(R"(
        mkdir -p ~/w/venv/bin ~/w/deep/er && cd ~/w &&
        ln -s /usr/bin/python3 venv/bin/python && ln -s ../../README venv/bin/readme && ln -s loop loop &&
        echo text > README && chmod 640 README && printf '#!/bin/sh\necho ran\n' > run && chmod 755 run &&
        ln README deep/hard && mkfifo pipe && truncate -s 1G sparse && mkdir skipped && echo x > skipped/f)"));
    ASSERT_EQ(made.outcome.status.code(), 0) << made.out;
    std::vector<std::string> left_out;
    ArchiveOptions options{.skip = {"skipped"}};
    options.left_out = [&](const std::string& path, std::string_view) { left_out.push_back(path); };
    const auto tar = pack(one.handle, {.path = "/home/user/w"}, options);
    ASSERT_TRUE(tar) << tar.error().line();
    EXPECT_EQ(left_out, std::vector<std::string>{"pipe"});
    ASSERT_LT(tar->size(), 1u << 20);

    ASSERT_TRUE(run_task(backend_->make_dir(other.handle, {.path = "/home/user/new"}, MakeParents::No)));
    const auto put = unpack(other.handle, {.path = "/home/user/new"}, *tar);
    ASSERT_TRUE(put) << put.error().line();
    EXPECT_EQ(
        output_of(other.handle,
                  R"(cd ~/new && ls && readlink venv/bin/python && cat venv/bin/readme deep/hard &&
        stat -c '%a %U %s' README run && ./run && stat -c %s sparse)"),
        "README\ndeep\nloop\nrun\nsparse\nvenv\n/usr/bin/python3\ntext\ntext\n640 user 5\n755 user 19\nran\n"
        "1073741824\n");
}

TEST_F(ArchiveTest, OneFileIsAnArchiveOfOneMember)
{
    const Made made;
    ASSERT_EQ(output_of(made.handle, "head -c 3000000 /dev/zero | tr '\\0' x > ~/big; mkdir ~/to"), "");
    const auto tar = pack(made.handle, {.path = "/home/user/big"});
    ASSERT_TRUE(tar) << tar.error().line();
    EXPECT_GT(tar->size(), 3'000'000u);
    ASSERT_TRUE(unpack(made.handle, {.path = "/home/user/to"}, *tar));
    EXPECT_EQ(output_of(made.handle, "cmp ~/big ~/to/big && echo same"), "same\n");
}

TEST_F(ArchiveTest, NothingIsWrittenOfWhatIsRefused)
{
    const Made made;
    const std::string tar = image::RawTar().file("good", "1").file("../bad", "1").done();
    const auto put = unpack(made.handle, {.path = "/home/user"}, tar);
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::Invalid);
    EXPECT_EQ(output_of(made.handle, "ls ~"), "");
    const std::string large = image::RawTar().file("f", std::string(100'000, 'x')).done();
    const auto over = unpack(made.handle, {.path = "/home/user"}, large, {.input = Bytes{50'000}});
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Code::Exhausted);
    EXPECT_THAT(over.error().message, HasSubstr("limit 50000"));
    EXPECT_EQ(unpack(made.handle, {.path = "/home/user"}, large, {.members = 0}).error().code, Code::Invalid);
    EXPECT_EQ(unpack(made.handle, {.path = "/home/user/no"}, large).error().code, Code::NotFound);
}

TEST_F(ArchiveTest, HasNoMoreRightsThanTheUser)
{
    const Made made;
    const std::string tar = image::RawTar().file("f", "1").done();
    if (::geteuid() == 0) EXPECT_EQ(unpack(made.handle, {.path = "/etc"}, tar).error().code, Code::Denied);
    EXPECT_EQ(pack(made.handle, {.path = "/proc"}).error().code, Code::Denied);
    ASSERT_EQ(output_of(made.handle, "ln -s / ~/root; mkdir ~/shut; chmod 000 ~/shut"), "");
    const auto put = unpack(made.handle, {.path = "/home/user"}, image::RawTar().file("root/f", "1").done());
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().code, Code::Conflict) << put.error().line();
    EXPECT_EQ(pack(made.handle, {.path = "/home/user"}).error().code, Code::Denied)
        << "a copy with a part missing is none";
}

TEST_F(ArchiveTest, RootReadsTheWholeRootButNotWhatIsMounted)
{
    const Made made;
    ASSERT_EQ(
        output_of(made.handle, "mkdir -m 700 ~/private && echo s > ~/private/f && chmod 600 ~/private/f"),
        "");
    std::vector<std::string> left_out;
    ArchiveOptions options;
    options.left_out = [&](const std::string& path, std::string_view) { left_out.push_back(path); };
    const std::string root = ::geteuid() == 0 ? "root" : "";
    const auto tar = pack(made.handle, {.path = "/", .user = root}, options);
    ASSERT_TRUE(tar) << tar.error().line();
    const UniqueFd file = image::as_file(*tar);
    auto reader = image::TarReader::open(file.get(), 1_GiB);
    ASSERT_TRUE(reader);
    std::map<std::string, image::TarEntry> members;
    for (image::TarEntry entry; *reader->next(entry);) members[entry.name] = entry;
    ASSERT_TRUE(members.contains("home/user/private/f"));
    EXPECT_EQ(members["home/user/private/f"].uid, 1000);
    EXPECT_EQ(members["home/user/private/f"].mode, 0600u);
    EXPECT_TRUE(members.contains("proc/"));
    for (const auto& [name, entry] : members) EXPECT_FALSE(name.starts_with("proc/1")) << name;
    EXPECT_THAT(left_out, ::testing::Contains("proc"));
}

TEST_F(ArchiveTest, AFailingSinkEndsIt)
{
    const Made made;
    const ByteSink full = [](std::string_view) -> Status { return fail(Code::Exhausted, "full"); };
    const auto packed = run_task(backend_->read_archive(made.handle, {.path = "/etc"}, {}, full));
    ASSERT_FALSE(packed);
    EXPECT_EQ(packed.error().message, "full");
}

} // namespace
} // namespace berth::local
