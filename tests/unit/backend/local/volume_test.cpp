#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/local/one_shot.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {
namespace {

using ::testing::HasSubstr;

class VolumeTest : public ::testing::Test {
protected:
    static void SetUpTestSuite()
    {
        char path[] = "/tmp/berth-volume-XXXXXX";
        ASSERT_NE(::mkdtemp(&path[0]), nullptr);
        dir_ = &path[0];
        auto state = StateDir::open(dir_ + "/state");
        ASSERT_TRUE(state) << state.error().line();
        state_.emplace(*std::move(state));
    }
    static void TearDownTestSuite()
    {
        state_.reset();
        const UniqueFd parent(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        EXPECT_TRUE(sys::remove_tree(parent.get(), dir_.substr(5)));
    }

    /// A volume as the lifecycle makes one.
    static Volume fresh(const std::string& name, bool writable = true)
    {
        const std::string source = dir_ + "/" + name;
        EXPECT_TRUE(make_dirs(source, 0700));
        return {.name = name, .target = "/data", .writable = writable, .source = source};
    }

    struct Ended {
        std::string out;
        std::string error;
    };
    static Ended run(const Volume& volume, const std::string& script, const std::string& user = "user",
                     const std::string& preset = "sandbox")
    {
        SandboxSpec spec;
        spec.id = make_sandbox_id(system_clock());
        spec.policy = *policy::preset(preset);
        spec.policy.limits = {};
        spec.volumes = {volume};
        spec.user = user;
        ExecSpec exec;
        exec.argv = {"/bin/sh", "-c", script};
        Ended ended;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { ended.out += event.bytes; };
        const auto outcome = run_one_shot(*state_, spec, exec, streams, {});
        if (!outcome) ended.error = outcome.error().line();
        return ended;
    }

    static inline std::string dir_;
    static inline std::optional<StateDir> state_;
};

TEST_F(VolumeTest, KeepsWhatOneSandboxWroteForTheNext)
{
    const Volume volume = fresh("kept");
    const auto first = run(volume, "echo one > /data/f && chmod 640 /data/f && cat /proc/self/uid_map");
    std::istringstream map(first.out);
    std::uint32_t inside = 1;
    std::uint32_t base = 0;
    ASSERT_TRUE(map >> inside >> base) << first.out << first.error;
    // The first one's ids are kept, so that the second cannot have the same.
    std::optional<sys::IdRange> taken;
    if (base >= sys::IdRange::kFirstId) {
        const auto leases = state_->id_leases();
        ASSERT_TRUE(leases);
        const unsigned slot = (base - sys::IdRange::kFirstId) / sys::IdRange::kSize;
        auto range = sys::IdRange::lease_slot(leases->get(), slot);
        ASSERT_TRUE(range) << range.error().line();
        taken.emplace(*std::move(range));
    }
    const auto second =
        run(volume, "cat /data/f; echo two >> /data/f; stat -c %u:%a /data/f; stat -c %u /data");
    EXPECT_EQ(second.out, "one\n1000:640\n1000\n") << second.error;
    EXPECT_EQ(read_file(volume.source + "/f").value_or(""), "one\ntwo\n");
    struct stat st{};
    ASSERT_EQ(::lstat((volume.source + "/f").c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, ::geteuid() == 0 ? 1000u : ::geteuid());
}

TEST_F(VolumeTest, ReadOnlyRefusesWrites)
{
    Volume volume = fresh("read-only");
    EXPECT_EQ(run(volume, "echo kept > /data/f; cat /data/f").out, "kept\n");
    volume.writable = false;
    const auto ended =
        run(volume, "cat /data/f; (echo x >> /data/f) 2>/dev/null || echo no; touch /data/new 2>&1");
    EXPECT_THAT(ended.out, ::testing::StartsWith("kept\nno\n")) << ended.error;
    EXPECT_THAT(ended.out, HasSubstr("Read-only file system"));
    EXPECT_FALSE(std::filesystem::exists(volume.source + "/new"));
}

TEST_F(VolumeTest, KeepsTheOwnersThatRootInsideGave)
{
    if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user's sandbox has one user";
    const Volume volume = fresh("owners");
    EXPECT_EQ(run(volume, "touch /data/f && chown 33:44 /data/f && stat -c %u /data", "root").out, "0\n");
    EXPECT_EQ(run(volume, "stat -c %u:%g /data/f", "root").out, "33:44\n");
    struct stat st{};
    ASSERT_EQ(::lstat((volume.source + "/f").c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, 33u);
}

TEST_F(VolumeTest, ObeysTheFileRules)
{
    const Volume volume = fresh("ruled");
    const auto ended = run(volume, "(echo x > /data/f) 2>/dev/null || echo no", "user", "read-only");
    EXPECT_EQ(ended.out, "no\n") << ended.error;
}

TEST_F(VolumeTest, WhereOthersCouldReachItIsRefused)
{
    const std::string place = std::filesystem::path("/tmp") / ("berth-open-" + random_hex(8));
    ASSERT_TRUE(make_dirs(place + "/v", 0755));
    Volume volume{.name = "v", .target = "/data", .source = place + "/v"};
    EXPECT_THAT(run(volume, "true").error, HasSubstr("can be reached by other users"));
    std::filesystem::remove_all(place);
}

TEST_F(VolumeTest, WithoutADirectoryIsRefused)
{
    EXPECT_THAT(run({.name = "v", .target = "/data"}, "true").error,
                HasSubstr("volume 'v' has no directory"));
    EXPECT_THAT(run({.name = "v", .target = "/data", .source = dir_ + "/none"}, "true").error,
                HasSubstr("No such file"));
}

} // namespace
} // namespace berth::local
