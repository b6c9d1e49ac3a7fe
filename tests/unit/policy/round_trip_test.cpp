#include <random>

#include <gtest/gtest.h>

#include "policy/bind.hpp"
#include "policy/document.hpp"

namespace berth::policy {
namespace {

void expect_round_trip(const Policy& policy)
{
    const std::string as_json = json::dump(to_json(policy));
    const auto from_json = parse(as_json, Syntax::Json);
    ASSERT_TRUE(from_json) << as_json << "\n" << from_json.error().message;
    EXPECT_EQ(*from_json, policy) << as_json;
    const std::string pretty = json::dump_pretty(to_json(policy));
    ASSERT_EQ(parse(pretty, Syntax::Json).value_or(Policy{}), policy) << pretty;
    const std::string as_toml = to_toml(policy);
    const auto from_toml = parse(as_toml, Syntax::Toml);
    ASSERT_TRUE(from_toml) << as_toml << "\n" << from_toml.error().message;
    EXPECT_EQ(*from_toml, policy) << as_toml;
}

TEST(RoundTrip, HoldsForEveryPreset)
{
    for (const auto& name : preset_names()) expect_round_trip(*preset(name));
}

TEST(RoundTrip, HoldsForAPolicyWithNothingInIt) { expect_round_trip(Policy{}); }

TEST(RoundTrip, QuotesWhatNeedsQuoting)
{
    Policy policy;
    policy.name = R"(a "quoted" \ name = [x] # é 日本)";
    policy.files = {{Access::Write, Path{R"(/a "b"\c'd/é#=)"}}, {Access::Deny, Glob{"**/[!\"'\\]x"}}};
    policy.protected_names = {R"(."git"\)", "'''"};
    // Three quotes in a row are refused in TOML, so that name goes by JSON only.
    EXPECT_EQ(parse(json::dump(to_json(policy)), Syntax::Json).value_or(Policy{}), policy);
    policy.protected_names.pop_back();
    expect_round_trip(policy);
}

TEST(RoundTrip, APathWithWildcardsInItNeverBecomesAWiderPattern)
{
    Policy policy;
    policy.files = {{Access::Write, Path{R"(/a*/[b]?\c)"}}};
    const auto again = parse(json::dump(to_json(policy)), Syntax::Json);
    ASSERT_TRUE(again) << again.error().message;
    const auto files = bind_files(*again, Roots{});
    ASSERT_TRUE(files);
    EXPECT_EQ(files->decide(R"(/a*/[b]?\c)"), Access::Write);
    EXPECT_EQ(files->decide(R"(/ab/[b]?\c)"), Access::Deny);
    EXPECT_EQ(files->decide(R"(/a*/bx\c)"), Access::Deny);
}

/// Policies of every shape the parser can make, from a seed.
class Generator {
public:
    explicit Generator(unsigned seed) : random_(seed) {}

    Policy policy()
    {
        Policy out;
        if (chance()) out.name = "generated";
        if (chance()) files(out);
        network(out);
        limits(out.limits);
        out.privileges = chance() ? Privileges::Sudo : Privileges::None;
        out.nested_namespaces = chance();
        if (chance()) out.devices = {"/dev/kvm"};
        if (chance()) out.devices.emplace_back("/dev/net/tun");
        return out;
    }

private:
    int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
    bool chance() { return below(2) == 0; }

    Target target(int i)
    {
        switch (below(5)) {
        case 0: return Path{fmt::format("/p{}/x y", i)};
        case 1: return Glob{fmt::format("**/g{}/*.[a-c]?", i)};
        case 2: return Glob{fmt::format("/g{}/**", i)};
        case 3: return Symbolic{Symbol::Tmpdir, fmt::format("t{}", i)};
        default: return Symbolic{Symbol::WorkspaceRoots, fmt::format("**/w{}", i)};
        }
    }

    void files(Policy& out)
    {
        if (chance()) out.files.push_back({Access::Read, Symbolic{Symbol::Root, {}}});
        for (int i = below(6); i >= 0; --i) out.files.push_back({static_cast<Access>(below(3)), target(i)});
        const bool writes = std::ranges::find(out.files, Access::Write, &FileRule::access) != out.files.end();
        if (writes && chance()) out.protected_names = {".git", "names with spaces"};
    }

    void network(Policy& out)
    {
        out.network = static_cast<Network>(below(4));
        if (out.network != Network::Allow) return;
        for (int i = below(4); i > 0; --i) {
            NetworkRule rule{fmt::format("*.h{}.org", i), {}, {}};
            if (chance()) rule.ports = {443, static_cast<std::uint16_t>(1 + below(400))};
            if (chance()) rule.methods = {"GET", "POST"};
            out.allow.push_back(rule);
        }
    }

    void limits(Limits& out)
    {
        if (chance())
            out.memory =
                Bytes{1 + std::uniform_int_distribution<std::uint64_t>(0, (1ull << 53) - 1)(random_)};
        if (chance()) out.cpus = (10 + below(100000)) / 1000.0;
        if (chance()) out.pids = 1 + static_cast<std::uint64_t>(below(1 << 22));
        if (chance()) out.disk = Bytes{static_cast<std::uint64_t>(1 + below(4096)) << below(41)};
        if (chance()) out.open_files = 1 + static_cast<std::uint64_t>(below(1 << 30));
        if (chance()) out.wall_time = std::chrono::milliseconds(1 + below(1 << 30));
    }

    std::mt19937 random_;
};

TEST(RoundTrip, HoldsForGeneratedPolicies)
{
    for (unsigned seed = 0; seed < 1500; ++seed) {
        expect_round_trip(Generator(seed).policy());
        if (HasFailure()) FAIL() << "seed " << seed;
    }
}

} // namespace
} // namespace berth::policy
