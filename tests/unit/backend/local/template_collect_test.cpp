#include <sys/stat.h>

#include <fstream>

#include "local_fixture.hpp"

#include "backend/local/one_shot.hpp"
#include "image/cache.hpp"
#include "shell_root.hpp"
#include "unit/image/oci_builder.hpp"

namespace berth::local {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Templates that were unpacked, and what becomes of them when nobody needs them.
class TemplateCollect : public LocalFixture {
protected:
    void SetUp() override
    {
        if (busybox().empty()) GTEST_SKIP() << "needs a static busybox: apt-get install busybox-static";
        archive_ = dir_ + "/root.tar";
        std::ofstream(archive_, std::ios::binary) << with_shell(busybox()).file("etc/x", "1").done();
    }
    void TearDown() override
    {
        LocalFixture::TearDown();
        fs::remove_all(dir_ + "/snapshots");
        age();
        collect();
        EXPECT_THAT(unpacked(), IsEmpty());
    }

    [[nodiscard]] SandboxSpec on_archive() const
    {
        SandboxSpec out = spec();
        out.root = {.kind = Template::Kind::Tar, .path = archive_, .tag = {}};
        return out;
    }
    static std::string templates() { return StateDir::open(dir_ + "/state")->templates(); }
    static std::vector<std::string> unpacked()
    {
        std::vector<std::string> out;
        for (const auto& entry : fs::directory_iterator(templates()))
            for (const char* kind : {"tar-", "layer-", "image-"})
                if (entry.is_directory() && entry.path().filename().string().starts_with(kind))
                    out.push_back(entry.path().filename());
        std::ranges::sort(out);
        return out;
    }
    /// As if nobody had asked for any of them for two days.
    static void age()
    {
        for (const auto& name : unpacked())
            fs::last_write_time(templates() + "/" + name + "/ready",
                                fs::file_time_type::clock::now() - std::chrono::hours(48));
    }
    static std::vector<std::string> collect(bool dry_run = false)
    {
        auto gone = run_task(backend_->collect(dir_ + "/snapshots", dry_run));
        EXPECT_TRUE(gone) << gone.error().line();
        return gone ? gone->objects : std::vector<std::string>{};
    }

    std::string archive_;
    sys::TempDir images_;
};

TEST_F(TemplateCollect, OneThatNothingStandsOnGoesWhenItIsOld)
{
    const auto sandbox = make(on_archive());
    ASSERT_THAT(unpacked(), ElementsAre(StartsWith("tar-")));
    age();
    EXPECT_THAT(collect(), IsEmpty()) << "an instance stands on it";

    SnapshotRequest what;
    what.id = make_snapshot_id(system_clock());
    what.directory = dir_ + "/snapshots/" + what.id;
    fs::create_directories(what.directory);
    ASSERT_TRUE(run_task(backend_->snapshot(sandbox, what)));
    ASSERT_TRUE(run_task(backend_->destroy(sandbox)));
    fs::rename(archive_, archive_ + ".away");
    age();
    EXPECT_THAT(collect(), IsEmpty()) << "a snapshot can be restored without the archive";
    CreateRequest again{on_archive()};
    again.from = SnapshotSource{.id = what.id, .kind = "berth_layer", .directory = what.directory};
    const auto restored = make(again);
    EXPECT_EQ(run(restored, "cat /etc/x"), "1");
    ASSERT_TRUE(run_task(backend_->destroy(restored)));
    fs::rename(archive_ + ".away", archive_);
    fs::remove_all(dir_ + "/snapshots");
    collect(); // the layers of the snapshot

    EXPECT_THAT(collect(), IsEmpty()) << "somebody asked for it a moment ago";
    age();
    EXPECT_THAT(collect(true), ElementsAre(StartsWith("template tar-")));
    EXPECT_THAT(unpacked(), ElementsAre(StartsWith("tar-"))) << "a dry run removes nothing";
    EXPECT_THAT(collect(), ElementsAre(StartsWith("template tar-")));
    EXPECT_THAT(unpacked(), IsEmpty());
    EXPECT_EQ(run(make(on_archive()), "cat /etc/x"), "1") << "unpacked again";
}

TEST_F(TemplateCollect, LayersOfAnImageGoOneByOne)
{
    const image::OciBuilder first(images_, "first");
    first.image({{with_shell(busybox()).done()}, {image::RawTar().file("etc/x", "1").done()}});
    const image::OciBuilder second(images_, "second");
    second.image({{with_shell(busybox()).done()}, {image::RawTar().file("etc/x", "2").done()}});
    auto wanted = spec();
    wanted.root = {.kind = Template::Kind::Oci, .path = first.path(), .tag = {}};
    const auto stays = make(wanted);
    wanted = spec();
    wanted.root = {.kind = Template::Kind::Oci, .path = second.path(), .tag = {}};
    const auto goes = make(wanted);
    ASSERT_EQ(unpacked().size(), 3u) << "the lower one is shared";
    ASSERT_TRUE(run_task(backend_->destroy(goes)));
    age();
    EXPECT_THAT(collect(), ElementsAre(StartsWith("template layer-")));
    EXPECT_EQ(unpacked().size(), 2u);
    EXPECT_EQ(run(stays, "cat /etc/x"), "1");
}

TEST_F(TemplateCollect, ARunThatGoesOnHoldsIts)
{
    const auto state = StateDir::open(dir_ + "/state");
    ASSERT_TRUE(state) << state.error().line();
    ExecSpec exec;
    exec.argv = {"/bin/sh", "-c", "echo on; cat /etc/x"};
    bool looked = false;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) {
        if (event.bytes.empty() || looked) return;
        looked = true;
        age();
        EXPECT_THAT(collect(), IsEmpty());
        EXPECT_THAT(unpacked(), ElementsAre(StartsWith("tar-")));
    };
    const auto outcome = run_one_shot(*state, on_archive(), exec, streams, {});
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_TRUE(looked);
    EXPECT_THAT(collect(), ElementsAre(StartsWith("template tar-")));
}

} // namespace
} // namespace berth::local
