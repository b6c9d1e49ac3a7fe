#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/bind.hpp"
#include "policy/policy.hpp"

namespace berth::policy {
namespace {

using testing::ElementsAre;

TEST(Preset, NamesAreInTheOrderOfHelp)
{
    EXPECT_THAT(preset_names(), ElementsAre("sandbox", "read-only", "workspace-write", "full-access"));
    for (const auto& name : preset_names()) EXPECT_EQ(preset(name)->name, name);
}

TEST(Preset, NoneHasANetworkOrPrivileges)
{
    for (const auto& name : preset_names()) {
        const Policy policy = *preset(name);
        EXPECT_EQ(policy.network, Network::Off) << name;
        EXPECT_EQ(policy.privileges, Privileges::None) << name;
        EXPECT_FALSE(policy.nested_namespaces) << name;
        EXPECT_TRUE(policy.devices.empty()) << name;
        EXPECT_EQ(policy.limits.pids, 4096u) << name;
        EXPECT_EQ(policy.limits.open_files, 20000u) << name;
    }
}

TEST(Preset, SaysWhereFilesMayBeWritten)
{
    Roots roots;
    roots.workspaces = {"/w"};
    const auto decide = [&](std::string_view name, std::string_view path) {
        return bind_files(*preset(name), roots)->decide(path);
    };
    for (const std::string_view path : {"/w/x", "/tmp/x", "/etc/passwd"}) {
        EXPECT_EQ(decide("sandbox", path), Access::Write);
        EXPECT_EQ(decide("full-access", path), Access::Write);
        EXPECT_EQ(decide("read-only", path), Access::Read);
    }
    EXPECT_EQ(decide("workspace-write", "/w/x"), Access::Write);
    EXPECT_EQ(decide("workspace-write", "/tmp/x"), Access::Write);
    EXPECT_EQ(decide("workspace-write", "/var/tmp/x"), Access::Write);
    EXPECT_EQ(decide("workspace-write", "/etc/passwd"), Access::Read);
    EXPECT_EQ(decide("workspace-write", "/w/.git/hooks/pre-commit"), Access::Read);
    EXPECT_EQ(decide("workspace-write", "/w/.vscode/tasks.json"), Access::Read);
}

TEST(Preset, SuggestsTheNearestName)
{
    const auto wrong = preset("sandbx");
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, Code::NotFound);
    EXPECT_EQ(wrong.error().message, "no preset 'sandbx', did you mean 'sandbox'?");
}

} // namespace
} // namespace berth::policy
