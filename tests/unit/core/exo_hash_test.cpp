#include "core/exo_hash.hpp"

#include "core/exo_spec.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace berth::exo {
namespace {

// The values that exo itself computes (specs of the lifecycle, 1.4).
TEST(ExoHash, OfASpecWithoutMounts)
{
    EXPECT_EQ(spec_hash({.image = "ubuntu:24.04", .network = false, .workdir = "/"}), "8b720987830e622f");
}

TEST(ExoHash, OfASpecWithEverything)
{
    const Spec spec{
        .image = "img",
        .mounts = {{.host = "/srv/proj", .guest = "/home/exo/workspace", .writable = true},
                   {.host = "/a//b/./c/", .guest = "/ro", .writable = false, .internal = true}},
        .file_systems = {{.name = "cache", .path = "/cache", .writable = true}},
        .network = true,
        .workdir = "/home/exo/workspace",
    };
    EXPECT_EQ(spec_hash(spec), "89c696fd5466eae4");
}

TEST(ExoHash, OfASpecOfOurs)
{
    SandboxSpec spec;
    spec.policy.network = policy::Network::Open;
    spec.mounts = {{.source = "/srv", .target = "/work", .mode = Mount::Mode::ReadWrite}};
    spec.volumes = {{.name = "cache", .target = "/cache", .source = "/var/x"}};
    spec.workdir = "/work";
    const auto found = spec_of(spec, "img");
    ASSERT_TRUE(found);
    EXPECT_EQ(spec_hash(*found),
              spec_hash({.image = "img",
                         .mounts = {{.host = "/srv", .guest = "/work", .writable = true}},
                         .file_systems = {{.name = "cache", .path = "/cache", .writable = true}},
                         .network = true,
                         .workdir = "/work"}));
    spec.mounts[0].mode = Mount::Mode::Copy;
    EXPECT_FALSE(spec_of(spec, "img"));
}

TEST(ExoHash, OfAMountIsThatOfItsRealPath)
{
    std::string place = "/tmp/berth-exo-XXXXXX";
    ASSERT_NE(::mkdtemp(place.data()), nullptr);
    std::filesystem::create_directories(place + "/real/d");
    std::filesystem::create_directory_symlink("real", place + "/link");
    SandboxSpec spec;
    spec.mounts = {{.source = place + "/link/d", .target = "/d"}};
    EXPECT_EQ(spec_of(spec, "img")->mounts.front().host, place + "/real/d");
    std::filesystem::remove_all(place);
    EXPECT_EQ(spec_of(spec, "img")->mounts.front().host, place + "/link/d") << "what is not there";
}

TEST(ExoHash, OfARequestAsItWasGiven)
{
    SandboxSpec spec;
    spec.policy.network = policy::Network::Off;
    spec.workdir = "/";
    EXPECT_EQ(hash_as_given(spec), spec_hash({.image = "", .network = false, .workdir = "/"}));
    spec.root = {.kind = Template::Kind::Image, .path = "ubuntu:24.04", .tag = {}};
    EXPECT_EQ(hash_as_given(spec), "8b720987830e622f");
    spec.root = {.kind = Template::Kind::Tar, .path = "/root.tar", .tag = {}};
    EXPECT_EQ(hash_as_given(spec), "") << "exo has no such root";
}

TEST(ExoHash, OfAKey)
{
    EXPECT_EQ(key_hash(Scope::Conversation, "conversation", "sandbox"), "4a2e6694eef21acd");
    EXPECT_NE(key_hash(Scope::Agent, "conversation", "sandbox"), "4a2e6694eef21acd");
}

TEST(ExoHash, SeesTheShapeOfAHostPath)
{
    const auto of = [](std::string host) {
        return spec_hash({.image = "i", .mounts = {{.host = std::move(host), .guest = "/g"}}});
    };
    EXPECT_EQ(of("/a/b"), of("/a//b/"));
    EXPECT_EQ(of("/a/b"), of("/a/./b/."));
    EXPECT_NE(of("/a/b"), of("/ab"));
    EXPECT_NE(of("/a/b"), of("/a/../b"));
}

} // namespace
} // namespace berth::exo
