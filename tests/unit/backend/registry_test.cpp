#include "backend/registry.hpp"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Backends, HoldTheLocalOne)
{
    EXPECT_TRUE(backends().check("local"));
    EXPECT_EQ(backends().check("loacl").error().code, Code::Unsupported);
}

TEST(Backends, OpenOnlyInAStateDirectory)
{
    BlockingPool pool(1);
    const auto opened = backends().open("local", {.state_path = "relative", .pool = &pool});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::Invalid);
}

} // namespace
} // namespace berth
