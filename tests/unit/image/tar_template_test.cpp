#include "image/tar_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/image/forked.hpp"
#include "unit/image/names_in.hpp"
#include "unit/image/tar_builder.hpp"
#include "unit/sys/temp_dir.hpp"

namespace berth::image {
namespace {

using sys::TempDir;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

/// Long after every file of the test was written.
class LaterClock final : public Clock {
public:
    [[nodiscard]] WallTime now() const override { return system_clock().now() + std::chrono::hours(1); }
    [[nodiscard]] SteadyTime steady() const override { return system_clock().steady(); }
};

std::string small_root(const std::string& content = "#!")
{
    return RawTar().file("usr/bin/sh", content, 0755).symlink("bin", "usr/bin").done();
}

TEST(TarTemplate, UnpacksOnceForEachContent)
{
    const TempDir dir;
    dir.write("a.tar", small_root());
    dir.write("copy.tar", small_root());
    dir.write("b.tar", small_root("#!other"));
    const auto a = ensure_tar_template(dir / "cache", dir / "a.tar");
    ASSERT_TRUE(a) << a.error().line();
    EXPECT_EQ(a->root, dir / ("cache/tar-" + a->sha256 + "/root"));
    EXPECT_EQ(read_file(a->root + "/bin/sh"), "#!");
    EXPECT_EQ(a->ids, ::geteuid() == 0 ? Ids::Sandbox : Ids::Maker);
    EXPECT_EQ(ensure_tar_template(dir / "cache", dir / "copy.tar")->root, a->root);
    EXPECT_NE(ensure_tar_template(dir / "cache", dir / "b.tar")->root, a->root);
}

TEST(TarTemplate, DoesNotReadAnUnchangedArchiveAgain)
{
    const TempDir dir;
    const LaterClock later;
    dir.write("a.tar", small_root());
    const auto first = ensure_tar_template(dir / "cache", dir / "a.tar", {}, later);
    ASSERT_TRUE(first) << first.error().line();

    std::vector<std::string> told;
    const Progress tell = [&](std::string_view line) { told.emplace_back(line); };
    const auto second = ensure_tar_template(dir / "cache", dir / "a.tar", tell, later);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->root, first->root);
    EXPECT_THAT(told, IsEmpty());

    dir.write("a.tar", small_root("#!changed"));
    const auto third = ensure_tar_template(dir / "cache", dir / "a.tar", tell, later);
    ASSERT_TRUE(third);
    EXPECT_NE(third->root, first->root);
    EXPECT_THAT(told, ElementsAre(StartsWith("reading"), StartsWith("unpacking")));
}

TEST(TarTemplate, ADamagedIndexOnlyCostsTime)
{
    const TempDir dir;
    const LaterClock later;
    dir.write("a.tar", small_root());
    const auto first = ensure_tar_template(dir / "cache", dir / "a.tar", {}, later);
    ASSERT_TRUE(first);
    for (const char* damage : {"", "{", "[1, {}, {\"file\": 1, \"sha256\": 2}]", "{\"file\": \"x\"}"}) {
        dir.write("cache/tar-index.json", damage);
        const auto again = ensure_tar_template(dir / "cache", dir / "a.tar", {}, later);
        ASSERT_TRUE(again) << damage << ": " << again.error().line();
        EXPECT_EQ(again->root, first->root);
    }
}

TEST(TarTemplate, AFileThatChangedJustNowIsNotTrustedToLookDifferentNextTime)
{
    const TempDir dir;
    dir.write("a.tar", small_root());
    ASSERT_TRUE(ensure_tar_template(dir / "cache", dir / "a.tar"));
    EXPECT_FALSE(dir.has("cache/tar-index.json"));
}

TEST(TarTemplate, RefusesWhatIsNoTemplateAndLeavesNothing)
{
    const TempDir dir;
    dir.write("empty.tar", RawTar().directory("usr").done());
    dir.write("evil.tar", RawTar().file("usr/bin/sh", "", 0755).file("../x", "").done());
    dir.write("text", "hello");
    ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
    for (const char* name : {"empty.tar", "evil.tar", "text", "fifo", "."}) {
        const auto refused = ensure_tar_template(dir / "cache", dir / name);
        ASSERT_FALSE(refused) << name;
        EXPECT_EQ(refused.error().code, Code::Invalid) << refused.error().line();
    }
    EXPECT_EQ(ensure_tar_template(dir / "cache", dir / "missing").error().code, Code::NotFound);
    EXPECT_THAT(names_in(dir / "cache"), ElementsAre("tar.lock"));
}

TEST(TarTemplate, AKilledMakerLeavesNothingThatStays)
{
    for (const char* label : {"template:begun", "template:unpacked", "template:filled",
                              "template:before-rename", "template:renamed"}) {
        SCOPED_TRACE(label);
        const TempDir dir;
        dir.write("a.tar", small_root());
        const auto make = [&] { return ensure_tar_template(dir / "cache", dir / "a.tar").has_value(); };
        EXPECT_TRUE(killed_at(label, make));
        const auto made = ensure_tar_template(dir / "cache", dir / "a.tar");
        ASSERT_TRUE(made) << made.error().line();
        EXPECT_EQ(read_file(made->root + "/bin/sh"), "#!");
        EXPECT_THAT(names_in(dir / "cache"), ElementsAre("tar-" + made->sha256, "tar.lock"));
    }
}

} // namespace
} // namespace berth::image
