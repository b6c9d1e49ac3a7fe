#include "lifecycle/volumes.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/scope_exit.hpp"
#include "base/unique_fd.hpp"

namespace berth::volumes {
namespace {

class VolumesTest : public ::testing::Test {
protected:
    VolumesTest()
    {
        char path[] = "/tmp/berth-volumes-XXXXXX";
        dir_ = ::mkdtemp(&path[0]);
    }
    ~VolumesTest() override { std::filesystem::remove_all(dir_); }

    std::string dir_;
};

/// What lies in a volume is the sandbox's choice; it is removed with the descriptors everybody has.
TEST_F(VolumesTest, RemovesATreeThatIsDeeperThanThereAreDescriptors)
{
    SandboxSpec spec;
    spec.volumes = {{.name = "data", .target = "/data"}};
    ASSERT_TRUE(provide(dir_, "key", spec));
    UniqueFd at(::open(spec.volumes[0].source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 600; ++i) {
        ASSERT_EQ(::mkdirat(at.get(), "d", 0755), 0);
        at.reset(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ASSERT_TRUE(at);
    }
    ASSERT_EQ(::mkdirat(at.get(), "closed", 0), 0);

    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit few{.rlim_cur = 128, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    ScopeExit restore([&] { ::setrlimit(RLIMIT_NOFILE, &before); });
    const auto known = list(dir_);
    ASSERT_TRUE(known) << known.error().line();
    ASSERT_EQ(known->size(), 1u);
    const auto removed = remove(dir_, known->front());
    EXPECT_TRUE(removed) << removed.error().line();
    EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(VolumesTest, ASharedOneIsTheSameForEveryKeyAndAnyOtherIsNot)
{
    SandboxSpec one, two;
    one.volumes = two.volumes = {{.name = "shared:v1", .target = "/data"}, {.name = "own", .target = "/own"}};
    ASSERT_TRUE(provide(dir_, "first", one));
    ASSERT_TRUE(provide(dir_, "second", two));
    EXPECT_EQ(one.volumes[0].source, two.volumes[0].source);
    EXPECT_NE(one.volumes[1].source, two.volumes[1].source);
    const auto known = list(dir_);
    ASSERT_TRUE(known) << known.error().line();
    EXPECT_EQ(known->size(), 3u);
}

/// Killed behind its first step, and the volume was made again: as a new one, which goes like any other.
TEST_F(VolumesTest, WhatAKilledRemovalLeftIsInNobodysWay)
{
    SandboxSpec spec;
    spec.volumes = {{.name = "data", .target = "/data"}};
    ASSERT_TRUE(provide(dir_, "key", spec));
    const std::string source = spec.volumes[0].source;
    ASSERT_TRUE(std::filesystem::create_directory(source + "/old"));
    std::filesystem::rename(source, source + ".removed");
    ASSERT_TRUE(provide(dir_, "key", spec));
    EXPECT_TRUE(std::filesystem::is_empty(source));
    ASSERT_TRUE(std::filesystem::create_directory(source + "/new"));

    const auto removed = remove(dir_, list(dir_)->front());
    EXPECT_TRUE(removed) << removed.error().line();
    EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

} // namespace
} // namespace berth::volumes
