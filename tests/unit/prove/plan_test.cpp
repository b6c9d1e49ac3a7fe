#include <algorithm>

#include <gtest/gtest.h>

#include "policy/document.hpp"
#include "prove/pattern.hpp"
#include "prove/probe.hpp"
#include "prove/receipt.hpp"

namespace berth::prove {

namespace {

struct Case {
    SandboxSpec spec;
    Capabilities have;
    Bait bait{.word = "w",
              .files = {"/tmp/bait/canary", "/state/bait/canary"},
              .socket = "/tmp/bait/socket",
              .abstract = "@w",
              .tcp4 = 1,
              .tcp6 = 2,
              .udp4 = 3};
    Facts facts{.user = "user", .uid = 1000, .home = "/home/user"};
    Load load = Load::Whole;
    Terrain terrain;

    explicit Case(const policy::Policy& policy)
    {
        spec.policy = policy;
        spec.mounts.push_back({.source = "/srv/work",
                               .target = "/srv/work",
                               .mode = Mount::Mode::ReadWrite,
                               .workspace = true});
        for (const auto feature : policy::all_features())
            have.holds.set(feature, policy::Tier::Outside, "a test");
    }
    [[nodiscard]] Plan planned() const
    {
        auto out = plan(
            {.spec = spec, .have = have, .bait = bait, .facts = facts, .load = load, .terrain = terrain});
        EXPECT_TRUE(out) << out.error().line();
        return out ? *std::move(out) : Plan{};
    }
};

bool tries(const Plan& plan, const std::string& rule, Must must)
{
    return std::ranges::any_of(plan.probes,
                               [&](const Probe& one) { return one.rule == rule && one.must == must; });
}

bool explains(const Plan& plan, const std::string& rule)
{
    return std::ranges::any_of(plan.untried, [&](const Untried& one) { return one.rule == rule; });
}

policy::Policy document(const char* text)
{
    auto out = policy::parse(text, policy::Syntax::Json);
    EXPECT_TRUE(out) << out.error().line();
    return out ? *std::move(out) : policy::Policy{};
}

constexpr const char* kNarrow =
    R"({"name":"narrow","extends":"workspace-write",
        "files":[{"deny":":workspace_roots/secret"},{"read":"/opt/data"},{"write":":home"}],
        "limits":{"memory":"64MiB","cpus":1,"pids":100,"disk":"10MiB","open_files":100}})";

} // namespace

TEST(Plan, KnowsASandboxThatIsADirectoryOfAWholeMachine)
{
    Case far(*policy::preset("workspace-write"));
    far.spec.mounts.clear();
    far.terrain = {.workspaces = {"/srv/box/work"},
                   .tmpdirs = {"/tmp"},
                   .shown = {},
                   .temporary = {},
                   .whole_machine = true,
                   .cut_by_namespace = true,
                   .ours_alone = true,
                   .secret = "/srv/box/secret",
                   .word = "s",
                   .host = "192.0.2.1",
                   .port = 7};
    const auto planned = far.planned();
    const auto find = [&](std::string_view act, std::string_view first) {
        return std::ranges::find_if(planned.probes, [&](const Probe& one) {
            return one.act.at(0) == act && one.act.size() > 1 && one.act[1] == first;
        });
    };
    for (const auto& name : far.spec.policy.protected_names)
        EXPECT_NE(find("make-it", "/srv/box/work/" + name), planned.probes.end()) << name;
    EXPECT_NE(find("work", "/srv/box/work"), planned.probes.end());
    EXPECT_NE(find("seen", "/srv/box/secret"), planned.probes.end());
    EXPECT_NE(find("tcp", "192.0.2.1"), planned.probes.end());
    // Granted by the policy's own words: everything may be read, and this may be the same machine.
    EXPECT_EQ(find("seen", "/tmp/bait/canary"), planned.probes.end());
    EXPECT_EQ(find("work", "/var/tmp"), planned.probes.end());
    EXPECT_TRUE(find("loopback", "127.0.0.1")->only_told);
    EXPECT_NE(std::ranges::find(planned.probes, "find_an_interface", &Probe::name), planned.probes.end());
}

TEST(Plan, TriesEveryRuleBothWaysOrSaysWhyNot)
{
    std::vector<policy::Policy> policies{document(kNarrow)};
    for (const auto& name : policy::preset_names()) policies.push_back(*policy::preset(name));
    for (const auto& policy : policies) {
        const auto planned = Case(policy).planned();
        for (const auto& demand : policy::demands(policy)) {
            EXPECT_TRUE(tries(planned, demand.why, Must::Pass) || explains(planned, demand.why))
                << policy.name << ": " << demand.why;
            EXPECT_TRUE(tries(planned, demand.why, Must::Fail) || explains(planned, demand.why))
                << policy.name << ": " << demand.why;
        }
    }
}

TEST(Plan, FindsWhatAPatternNamesAndWhatLiesBesideIt)
{
    const auto policy = document(
        R"({"name":"p","files":[{"read":":root"},{"write":"/work"},{"deny":"/work/**/*.env"},{"deny":"**/.netrc"},
            {"deny":"/work/vault/**"},{"deny":"/work/a?c/*[x-z]"},{"deny":"/work/*/key"},{"deny":"/etc/*.key"},{"deny":"/work/file?"}]})");
    const auto files = policy::bind_files(policy, {});
    ASSERT_TRUE(files) << files.error().line();
    for (const std::string pattern :
         {"/work/**/*.env", "/**/.netrc", "/work/vault/**", "/work/a?c/*[x-z]", "/work/*/key"}) {
        const auto match = find_match(*files, pattern, {"/work"}, "t");
        ASSERT_TRUE(match) << pattern;
        for (const auto& path : {match->planted, match->other}) {
            EXPECT_TRUE(policy::glob_match(pattern, path)) << pattern << " " << path;
            EXPECT_NE(path.find("/.berth-probe-t-"), std::string::npos) << path;
        }
        EXPECT_NE(match->planted, match->other);
        EXPECT_EQ(files->decide(match->beside + "/.berth-probe-t-0"), policy::Access::Write) << match->beside;
    }
    EXPECT_FALSE(find_match(*files, "/etc/*.key", {"/work"}, "t"));  // not writable
    EXPECT_FALSE(find_match(*files, "/work/file?", {"/work"}, "t")); // somebody else's file may be called so
    Case one(policy);
    const auto planned = one.planned();
    EXPECT_EQ(planned.planted.size(), 5);
    EXPECT_TRUE(explains(planned, "deny /etc/*.key"));
    EXPECT_TRUE(tries(planned, "deny /work/**/*.env", Must::Fail) &&
                tries(planned, "deny /work/**/*.env", Must::Pass));
}

TEST(Plan, LeavesOutWhatTheBackendNeverPromised)
{
    Case one(*policy::preset("sandbox"));
    one.have.holds.set(policy::Feature::LimitPids, policy::Tier::None, "no such limit");
    const auto planned = one.planned();
    EXPECT_FALSE(tries(planned, "pids 4096", Must::Fail));
    EXPECT_TRUE(explains(planned, "pids 4096"));
}

TEST(Plan, ExceedsNoLimitWhileOthersRun)
{
    Case one(document(kNarrow));
    one.load = Load::Light;
    const auto planned = one.planned();
    EXPECT_FALSE(tries(planned, "memory 64 MiB", Must::Fail));
    EXPECT_TRUE(explains(planned, "memory 64 MiB"));
    EXPECT_TRUE(tries(planned, "memory 64 MiB", Must::Pass));
}

TEST(Plan, NeverSendsAPacketBeyondTheMachineWhereTheNetworkIsOpen)
{
    for (const auto network : {policy::Network::Open, policy::Network::Host}) {
        auto policy = *policy::preset("sandbox");
        policy.network = network;
        for (const auto& probe : Case(policy).planned().probes) {
            const bool dials = probe.act[0] == "tcp" || probe.act[0] == "udp";
            if (dials && probe.act[1] != "127.0.0.1" && probe.act[1] != "::1")
                EXPECT_EQ(probe.act[1], "169.254.169.254")
                    << probe.name; // link-local: no router passes it on
        }
    }
}

TEST(Plan, DoesNotTryToHideWhatIsMounted)
{
    Case one(*policy::preset("sandbox"));
    one.spec.mounts.push_back({.source = "/tmp", .target = "/mnt", .mode = Mount::Mode::ReadOnly});
    for (const auto& probe : one.planned().probes) {
        EXPECT_NE(probe.name, "read_file_of_the_host");
        EXPECT_NE(probe.name, "reach_unix_socket_of_the_host");
    }
}

TEST(Receipt, HoldsOnlyWhenNothingWentOtherwise)
{
    Receipt receipt;
    EXPECT_FALSE(receipt.held()); // nothing was tried
    receipt.probes.push_back(
        {.rule = "network off", .probe = "p", .must = Must::Pass, .verdict = Verdict::Held});
    EXPECT_FALSE(receipt.held()); // no wall was met
    EXPECT_EQ(receipt.failure(), "nothing that must fail could be tried");
    receipt.probes.push_back({.rule = "network off", .probe = "a", .verdict = Verdict::Held});
    receipt.probes.push_back({.rule = "network off", .probe = "b", .verdict = Verdict::Absent});
    EXPECT_TRUE(receipt.held());
    EXPECT_EQ(receipt.failure(), "");
    receipt.probes.push_back(
        {.rule = "pids 3", .probe = "c", .user = "root", .verdict = Verdict::Unclear, .saw = "no answer"});
    EXPECT_FALSE(receipt.held());
    EXPECT_EQ(receipt.failure(), "pids 3 (probe c as root, which must fail: no answer)");
}

TEST(Receipt, TellsRulesThatMetNoWall)
{
    Receipt receipt;
    receipt.probes.push_back({.rule = "hollow", .probe = "a", .verdict = Verdict::Absent});
    receipt.probes.push_back({.rule = "hollow", .probe = "b", .must = Must::Pass, .verdict = Verdict::Held});
    receipt.probes.push_back({.rule = "firm", .probe = "a", .verdict = Verdict::Absent});
    receipt.probes.push_back({.rule = "firm", .probe = "b", .verdict = Verdict::Held});
    receipt.probes.push_back({.rule = "explained", .probe = "a", .verdict = Verdict::Absent});
    receipt.untried.push_back({"explained", "why"});
    tell_hollow_rules(receipt);
    ASSERT_EQ(receipt.untried.size(), 2);
    EXPECT_EQ(receipt.untried.back().rule, "hollow");
}

TEST(Receipt, HashesWhatAPolicySaysAndNotItsName)
{
    auto one = *policy::preset("sandbox");
    auto other = one;
    other.name = "mine";
    EXPECT_EQ(policy_hash(one), policy_hash(other));
    other.limits.pids = 5;
    EXPECT_NE(policy_hash(one), policy_hash(other));
}

} // namespace berth::prove
