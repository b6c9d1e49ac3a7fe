#include "policy/demand.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/document.hpp"

namespace berth::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Policy policy_of(std::string_view document)
{
    auto policy = parse(document, Syntax::Json);
    if (!policy) ADD_FAILURE() << policy.error().message;
    return policy ? *std::move(policy) : Policy{};
}

std::vector<std::string> shown(const std::vector<Demand>& demands)
{
    std::vector<std::string> out;
    for (const auto& demand : demands)
        out.push_back(fmt::format("{}: {}", to_string(demand.feature), demand.why));
    return out;
}

Holdings everything(Tier tier = Tier::Outside)
{
    Holdings have;
    for (const Feature feature : all_features()) have.set(feature, tier, "a test");
    return have;
}

TEST(Demands, SayEveryRuleInTheOrderOfTheDocument)
{
    const auto all = demands(policy_of(R"({
        "files": [{"read": ":root"}, {"write": "/data"}, {"deny": "/etc/secret"}, {"deny": "**/.env"},
                  {"deny": ":home/*.key"}],
        "protect": [".git", ".codex"],
        "network": {"allow": [{"host": "pypi.org", "ports": [80, 443], "methods": ["GET"]}, {"host": "*.x.org"}]},
        "limits": {"memory": "64MiB", "cpus": 1.5, "pids": 10, "disk": "1GiB", "open_files": 99, "wall_time": "90s"},
        "privileges": "sudo", "nested_namespaces": true, "devices": ["/dev/kvm", "/dev/fuse"] })"));
    EXPECT_THAT(shown(all),
                ElementsAre("read_only_paths: read :root", "writable_paths: write /data",
                            "denied_paths: deny /etc/secret", "globs: deny **/.env",
                            "globs: deny :home/*.key", "protected_names: protect .git .codex",
                            "network_allow: network allow pypi.org port 80,443 GET",
                            "network_allow: network allow *.x.org", "limit_memory: memory 64 MiB",
                            "limit_cpu: cpus 1.5", "limit_pids: pids 10", "limit_disk: disk 1 GiB",
                            "limit_open_files: open files 99", "limit_wall_time: wall time 90s",
                            "sudo: privileges sudo", "nested_namespaces: nested namespaces",
                            "devices: device /dev/kvm", "devices: device /dev/fuse"));
}

TEST(Demands, OfAPolicyWithoutFileRulesBeginWithAPrivateRoot)
{
    EXPECT_THAT(shown(demands(*preset("sandbox"))),
                ElementsAre("private_root: a private root", "network_off: network off",
                            "limit_pids: pids 4096", "limit_open_files: open files 20000"));
}

TEST(Demands, WithoutARuleForTheWholeTheRestMustBeDenied)
{
    EXPECT_THAT(shown(demands(policy_of(R"({"files": [{"read": ":minimal"}]})"))),
                testing::Contains("denied_paths: deny everything else"));
}

TEST(Demands, EachNetworkIsAFeature)
{
    for (const std::string_view word : {"off", "allow", "open", "host"})
        EXPECT_THAT(shown(demands(policy_of(fmt::format(R"({{"network": "{}"}})", word)))),
                    testing::Contains(fmt::format("network_{0}: network {0}", word)));
}

TEST(Demands, CarryTheTierTheyAccept)
{
    for (const auto& demand : demands(*preset("workspace-write"), Tier::Vendor))
        EXPECT_EQ(demand.at_least, Tier::Vendor);
}

TEST(Features, HaveDistinctNames)
{
    std::set<std::string_view> names;
    for (const Feature feature : all_features()) names.insert(to_string(feature));
    EXPECT_EQ(names.size(), 19u);
    EXPECT_FALSE(names.contains("?"));
    EXPECT_LT(Tier::None, Tier::Inside);
    EXPECT_LT(Tier::Inside, Tier::Vendor);
    EXPECT_LT(Tier::Vendor, Tier::Outside);
}

TEST(Admit, PassesWhatIsHeld)
{
    for (const auto& name : preset_names()) EXPECT_TRUE(admit(demands(*preset(name)), everything())) << name;
}

TEST(Admit, NamesEveryUnmetRuleWithItsReason)
{
    Holdings have = everything();
    have.set(Feature::LimitMemory, Tier::None,
             "no memory controller: run as root or delegate a cgroup v2 subtree");
    have.set(Feature::NetworkOpen, Tier::None, "comes with egress");
    const auto status =
        admit(demands(policy_of(R"({"limits": {"memory": "64MiB"}, "network": "open"})")), have);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::Unsupported);
    EXPECT_EQ(
        status.error().message,
        "cannot be held here: network open (comes with egress); memory 64 MiB (no memory controller: run as "
        "root or delegate a cgroup v2 subtree)");
}

TEST(Admit, SaysAReasonOnceForAllTheRulesItStops)
{
    Holdings have = everything();
    have.set(Feature::Globs, Tier::None, "no globs here");
    const auto status = admit(
        demands(policy_of(R"({"files": [{"read": ":root"}, {"deny": "**/a"}, {"deny": "**/b"}]})")), have);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "cannot be held here: deny **/a, deny **/b (no globs here)");
}

TEST(Admit, AWeakerTierIsNotEnough)
{
    const auto asked = demands(*preset("sandbox"));
    const auto status = admit(asked, everything(Tier::Vendor));
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr("network off"));
    EXPECT_THAT(status.error().message, HasSubstr("(held only vendor by a test, outside is asked)"));
    EXPECT_TRUE(admit(demands(*preset("sandbox"), Tier::Vendor), everything(Tier::Vendor)));
    EXPECT_TRUE(admit(demands(*preset("sandbox"), Tier::Inside), everything(Tier::Vendor)));
}

TEST(Admit, WhatABackendNeverMentionedIsNotHeld)
{
    const auto status = admit(demands(*preset("sandbox")), Holdings{});
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr("(this backend does not hold it)"));
}

TEST(Explain, GivesOneLineARule)
{
    Holdings have = everything();
    have.set(Feature::NetworkOff, Tier::Inside, "a wrapper");
    const auto lines = explain(demands(*preset("read-only")), have);
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[0].demand.why, "read :root");
    EXPECT_TRUE(lines[0].met);
    EXPECT_EQ(lines[0].holding.how, "a test");
    EXPECT_EQ(lines[1].demand.why, "network off");
    EXPECT_FALSE(lines[1].met);
    EXPECT_EQ(lines[1].holding.how, "a wrapper");
}

} // namespace
} // namespace berth::policy
