#include "backend/docker/life.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "keeping/native.hpp"

namespace berth::docker {
namespace {

/// A state that knows nothing, and an engine that is not there.
class NoEngine : public ::testing::Test {
protected:
    void TearDown() override { std::filesystem::remove_all(path_); }

    std::string path_ = [] {
        std::string pattern = "/tmp/berth-look-XXXXXX";
        return std::string(::mkdtemp(pattern.data()));
    }();
    InstanceDirs dirs_ = *InstanceDirs::open(path_);
    Engine engine_{parse_engine("unix://" + path_ + "/none")};
    std::string native_ = keeping::native_name("sbx_0123456789abcdefghjkmnpqrs", 1);
};

TEST_F(NoEngine, SaysOfNothingThatItIsGone)
{
    for (const Look look : {Look{look_at}, Look{look_far}}) {
        const auto found = look({.dirs = dirs_, .engine = engine_}, native_);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code, Code::Unavailable) << found.error().line();
    }
}

TEST_F(NoEngine, IsNotNeededToListNothing)
{
    const auto found = look_at_all({.dirs = dirs_, .engine = engine_});
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_TRUE(found->empty());
}

TEST_F(NoEngine, KeepsNobodyFromRemovingWhatIsNotThere)
{
    EXPECT_TRUE(destroy_instance({.dirs = dirs_, .engine = engine_}, native_));
}

} // namespace
} // namespace berth::docker
