#include "core/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BackendRegistry two()
{
    BackendRegistry registry;
    const auto opens = [](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
        return fail(Code::Unavailable, "opened with {}", options.state_path);
    };
    registry.add("local", opens);
    registry.add("docker", opens);
    return registry;
}

TEST(BackendRegistry, KnowsItsNames) { EXPECT_THAT(two().names(), ElementsAre("docker", "local")); }

TEST(BackendRegistry, OpensByNameWithTheOptions)
{
    const auto opened = two().open("local", {.state_path = "/here", .pool = nullptr});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message, "opened with /here");
}

TEST(BackendRegistry, SuggestsTheNearestName)
{
    const auto opened = two().open("lokal", {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::Unsupported);
    EXPECT_THAT(opened.error().message, HasSubstr("did you mean local?"));
}

TEST(BackendRegistry, ListsAllWhenNoneIsNear)
{
    const auto checked = two().check("kubernetes");
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr("docker, local"));
    EXPECT_TRUE(two().check("docker"));
}

} // namespace
} // namespace berth
