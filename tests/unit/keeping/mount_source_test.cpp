#include "keeping/mount_source.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "support/socket_address.hpp"

namespace berth::keeping {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MountSources : public ::testing::Test {
protected:
    void SetUp() override
    {
        std::string pattern = "/tmp/berth-source-XXXXXX";
        place_ = ::mkdtemp(pattern.data());
        fs::create_directories(place_ + "/a/d");
        fs::create_directories(place_ + "/b/d");
        mount_.source = place_ + "/a/d";
        mount_.target = "/d";
        spec_.mounts = {mount_};
    }
    void TearDown() override { fs::remove_all(place_); }
    std::vector<Pin> pins() const { return pin_mounts(spec_).value(); }
    std::string refusal(const Pin& pin) const
    {
        const auto again = open_pinned(mount_, pin);
        if (again) return "none";
        EXPECT_EQ(again.error().code, Code::Denied);
        return again.error().line();
    }

    std::string place_;
    Mount mount_;
    SandboxSpec spec_;
};

TEST_F(MountSources, AreWhatTheyWereOrRefused)
{
    const auto pin = pins().front();
    EXPECT_EQ(refusal(pin), "none");
    fs::rename(place_ + "/a", place_ + "/old");
    EXPECT_THAT(refusal(pin), HasSubstr("mount /d: " + place_ + "/a/d is not what it was"));
    fs::create_directory_symlink("old", place_ + "/a");
    EXPECT_THAT(refusal(pin), HasSubstr("link on the way")) << "even to the same";
    fs::remove(place_ + "/a");
    fs::rename(place_ + "/b", place_ + "/a");
    EXPECT_THAT(refusal(pin), HasSubstr("another directory has its name"));
}

TEST_F(MountSources, AreRecordedWithTheDeviceOfThisBootOnly)
{
    const auto read = [&](const json::Object& record, bool same_boot) {
        const json::Value document(record);
        return read_pins(json::Reader(document), spec_, same_boot).value();
    };
    const auto pinned = pins();
    json::Object record;
    record["pins"] = to_json(pinned);
    EXPECT_EQ(read(record, true), pinned);
    auto later = pinned;
    later.front().device.clear();
    EXPECT_EQ(read(record, false), later);
    EXPECT_EQ(refusal(later.front()), "none");
    // A record from before there were any: no link is followed.
    const auto old = read({}, true);
    EXPECT_EQ(refusal(old.front()), "none");
    fs::rename(place_ + "/a", place_ + "/old");
    fs::create_directory_symlink("b", place_ + "/a");
    EXPECT_THAT(refusal(old.front()), HasSubstr("link on the way"));
}

TEST_F(MountSources, ThatShowTheSocketOfAnEngineAreRefused)
{
    const std::string socket = place_ + "/b/d/sock";
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const test::SocketAddress address(socket);
    ASSERT_EQ(::bind(listener.get(), address.get(), address.size()), 0);
    fs::create_directory_symlink("b", place_ + "/link");
    for (const char* source : {"", "/b", "/b/d", "/link/d"}) {
        const auto refused = refuse_engines(*open_source(place_ + source), place_ + "/link/d/sock");
        ASSERT_FALSE(refused) << source;
        EXPECT_EQ(refused.error().code, Code::Denied);
        EXPECT_THAT(refused.error().line(), HasSubstr("engine is root of this machine"));
    }
    EXPECT_TRUE(refuse_engines(*open_source(place_ + "/a"), socket));
    EXPECT_TRUE(refuse_engines(*open_source(place_ + "/b/d"), {})) << "of no engine";
    // A directory of sockets, and what lies in it.
    EXPECT_FALSE(refuse_engines(*open_source(place_ + "/b/d"), place_ + "/b"));
}

} // namespace
} // namespace berth::keeping
