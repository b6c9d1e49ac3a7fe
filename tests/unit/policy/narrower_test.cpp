#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/bind.hpp"
#include "policy/document.hpp"

namespace berth::policy {
namespace {

using testing::HasSubstr;

Roots test_roots()
{
    Roots roots;
    roots.workspaces = {"/w"};
    return roots;
}

Policy policy_of(std::string_view document)
{
    auto policy = parse(document, Syntax::Json);
    if (!policy) ADD_FAILURE() << document << "\n" << policy.error().message;
    return policy ? *std::move(policy) : Policy{};
}

/// Empty when narrower, else what the refusal says.
std::string wider(const Policy& inner, const Policy& outer)
{
    const auto status = check_narrower(inner, outer, test_roots());
    if (status) return {};
    EXPECT_EQ(status.error().code, Code::Denied) << status.error().message;
    return status.error().message;
}

std::string wider(std::string_view inner, std::string_view outer)
{
    return wider(policy_of(inner), policy_of(outer));
}

TEST(Narrower, PresetsAreOrdered)
{
    const std::pair<std::string_view, std::string_view> allowed[] = {
        {"sandbox", "sandbox"},
        {"sandbox", "full-access"},
        {"full-access", "sandbox"},
        {"read-only", "sandbox"},
        {"read-only", "workspace-write"},
        {"read-only", "read-only"},
        {"read-only", "full-access"},
        {"workspace-write", "sandbox"},
        {"workspace-write", "workspace-write"},
        {"workspace-write", "full-access"},
        {"full-access", "full-access"},
    };
    for (const auto& inner : preset_names()) {
        for (const auto& outer : preset_names()) {
            const bool expected =
                std::ranges::find(allowed, std::pair<std::string_view, std::string_view>(inner, outer)) !=
                std::end(allowed);
            EXPECT_EQ(wider(*preset(inner), *preset(outer)).empty(), expected) << inner << " in " << outer;
        }
    }
}

struct Case {
    std::string_view inner;
    std::string_view outer;
    std::string_view wider; ///< empty: it is narrower
};

TEST(Narrower, ComparesFilesEverywhere)
{
    constexpr Case kCases[] = {
        {R"({"files":[{"write":"/w/a"}]})", R"({"files":[{"write":"/w"}]})", ""},
        {R"({"files":[{"write":"/w"}]})", R"({"files":[{"write":"/w/a"}]})", "write /w (deny there)"},
        {R"({"files":[{"read":":root"}]})", R"({"files":[{"read":":root"},{"deny":"/etc"}]})",
         "read /etc (deny there)"},
        {R"({"files":[{"read":":root"},{"deny":"/etc"}]})",
         R"({"files":[{"read":":root"},{"deny":"/etc/x"}]})", ""},
        {R"({"files":[{"read":":root"},{"write":"/a/b"}]})", R"({"files":[{"write":":root"},{"read":"/a"}]})",
         "write /a/b (read there)"},
        {R"({"files":[{"write":"/w"},{"read":"/w/a"}]})", R"({"files":[{"write":"/w"},{"deny":"/w/a/b"}]})",
         "read /w/a/b (deny there)"},
        {R"({"files":[{"write":":workspace_roots"}]})", R"({"files":[{"write":"/w"}]})", ""},
        {"{}", R"({"files":[{"write":":root"}]})", ""},
        {"{}", R"({"files":[{"write":":root"},{"read":"/a"}]})", "write /a (read there)"},
    };
    for (const auto& [inner, outer, message] : kCases) {
        if (message.empty())
            EXPECT_EQ(wider(inner, outer), "") << inner << " in " << outer;
        else
            EXPECT_THAT(wider(inner, outer), HasSubstr(std::string(message))) << inner << " in " << outer;
    }
}

TEST(Narrower, ComparesPatternsSoundly)
{
    constexpr Case kCases[] = {
        // A pattern the outer one denies must be denied inside too …
        {R"({"files":[{"write":"/w"}]})", R"({"files":[{"write":"/w"},{"deny":"**/.env"}]})",
         "write **/.env (deny there)"},
        {R"({"files":[{"write":"/w"},{"deny":"**/.env"}]})",
         R"({"files":[{"write":"/w"},{"deny":"**/.env"}]})", ""},
        {R"({"files":[{"write":"/w"},{"read":"**/.env"}]})",
         R"({"files":[{"write":"/w"},{"deny":"**/.env"}]})", "**/.env (deny there)"},
        // … unless nothing near it is granted.
        {R"({"files":[{"read":"/usr"}]})", R"({"files":[{"read":":root"},{"deny":"/w/**/.env"}]})", ""},
        {R"({"files":[{"read":"/w"}]})", R"({"files":[{"write":"/w"},{"read":"/w/*.lock"}]})", ""},
        // A pattern that grants must be granted outside, by itself or everywhere around.
        {R"({"files":[{"write":"/w/*.c"}]})", R"({"files":[{"write":"/w"}]})", ""},
        {R"({"files":[{"write":"/w/*.c"}]})", R"({"files":[{"write":"/w/*.c"}]})", ""},
        {R"({"files":[{"write":"/w/*.c"}]})", R"({"files":[{"read":"/w"}]})", "write /w/*.c (read there)"},
        {R"({"files":[{"read":"**/x"}]})", R"({"files":[{"read":"/w"}]})", "read **/x (deny there)"},
        {R"({"files":[{"write":"/w/**/*.c"}]})", R"({"files":[{"write":"/w"},{"read":"/w/vendor"}]})",
         "write /w/**/*.c (read there)"},
        {R"({"files":[{"read":":root"},{"deny":"**/.env"}]})", R"({"files":[{"read":":root"}]})", ""},
    };
    for (const auto& [inner, outer, message] : kCases) {
        if (message.empty())
            EXPECT_EQ(wider(inner, outer), "") << inner << " in " << outer;
        else
            EXPECT_THAT(wider(inner, outer), HasSubstr(std::string(message))) << inner << " in " << outer;
    }
}

TEST(Narrower, KeepsProtectedNames)
{
    constexpr std::string_view kOuter = R"({"files":[{"write":"/w"}],"protect":[".git"]})";
    EXPECT_THAT(wider(R"({"files":[{"write":"/w"}]})", kOuter), HasSubstr("write .git (protected there)"));
    EXPECT_EQ(wider(R"({"files":[{"write":"/w"}],"protect":["x",".git"]})", kOuter), "");
    EXPECT_EQ(wider(R"({"files":[{"read":"/w"}]})", kOuter), "");
    EXPECT_THAT(wider(R"({"files":[{"write":"/w/.git"}],"protect":["x"]})", kOuter),
                HasSubstr("write /w/.git (read there)"));
}

TEST(Narrower, ASharedPatternDoesNotOpenWhatIsProtectedAroundIt)
{
    // No parser passes such a write rule, but a policy may be built in code.
    Policy inner;
    inner.files = {{Access::Write, Glob{"/w/.git/*.md"}}};
    inner.protected_names = {".git"};
    Policy outer = inner;
    outer.files.push_back({Access::Write, Path{"/w"}});
    ASSERT_EQ(bind_files(inner, test_roots())->decide("/w/.git/a.md"), Access::Write);
    ASSERT_EQ(bind_files(outer, test_roots())->decide("/w/.git/a.md"), Access::Read);
    EXPECT_THAT(wider(inner, outer), HasSubstr("write /w/.git/*.md (read there)"));
}

TEST(Narrower, ComparesNetworks)
{
    constexpr std::string_view kWords[] = {"off", "allow", "open", "host"};
    for (std::size_t inner = 0; inner < 4; ++inner)
        for (std::size_t outer = 0; outer < 4; ++outer)
            EXPECT_EQ(wider(fmt::format(R"({{"network":"{}"}})", kWords[inner]),
                            fmt::format(R"({{"network":"{}"}})", kWords[outer]))
                          .empty(),
                      inner <= outer)
                << kWords[inner] << " in " << kWords[outer];
}

TEST(Narrower, ComparesDestinations)
{
    const auto allow = [](std::string_view rules) {
        return fmt::format(R"({{"network":{{"allow":[{}]}}}})", rules);
    };
    const std::string outer = allow(
        R"({"host":"*.a.org","ports":[80,443]},{"host":"b.org","methods":["GET"]},{"host":"10.0.0.0/8"})");
    EXPECT_EQ(wider(allow(R"({"host":"x.a.org","ports":[443]})"), outer), "");
    EXPECT_EQ(wider(allow(R"({"host":"b.org","ports":[8080],"methods":["GET"]})"), outer), "");
    EXPECT_EQ(wider(allow(R"({"host":"10.1.0.0/16"})"), outer), "");
    for (const std::string_view rule :
         {R"({"host":"x.a.org"})", R"({"host":"x.a.org","ports":[22]})", R"({"host":"a.org","ports":[80]})",
          R"({"host":"b.org"})", R"({"host":"b.org","methods":["GET","POST"]})", R"({"host":"11.0.0.1"})"})
        EXPECT_THAT(wider(allow(rule), outer), HasSubstr("network allow ")) << rule;
    EXPECT_EQ(wider(allow(R"({"host":"b.org"})"), R"({"network":"open"})"), "");
    EXPECT_THAT(wider(allow(R"({"host":"10.0.0.1"})"), R"({"network":"open"})"), HasSubstr("10.0.0.1"))
        << "open never means private addresses";
    EXPECT_EQ(wider(allow(R"({"host":"10.0.0.1"})"), R"({"network":"host"})"), "");
}

TEST(Narrower, ComparesLimitsAndInheritsTheUnset)
{
    const std::string_view outer =
        R"({"limits":{"memory":"1G","cpus":1,"pids":100,"disk":"1G","open_files":100,
                                       "wall_time":"1m"}})";
    EXPECT_EQ(wider(R"({"limits":{"pids":"unlimited","open_files":"unlimited"}})", outer), "");
    EXPECT_EQ(wider(outer, outer), "");
    const std::pair<std::string_view, std::string_view> larger[] = {
        {R"("memory":"2G")", "memory 2 GiB (1 GiB there)"},
        {R"("cpus":1.5)", "cpus 1.5 (1 there)"},
        {R"("pids":101)", "pids 101 (100 there)"},
        {R"("disk":"2G")", "disk 2 GiB (1 GiB there)"},
        {R"("open_files":101)", "open files 101 (100 there)"},
        {R"("wall_time":"61s")", "wall time 61s (1m there)"},
    };
    for (const auto& [limit, message] : larger)
        EXPECT_THAT(wider(fmt::format(R"({{"limits":{{{}}}}})", limit), outer),
                    HasSubstr(std::string(message)));
}

TEST(Narrower, ComparesPrivileges)
{
    EXPECT_THAT(wider(R"({"privileges":"sudo"})", "{}"), HasSubstr("privileges sudo"));
    EXPECT_THAT(wider(R"({"nested_namespaces":true})", "{}"), HasSubstr("nested namespaces"));
    EXPECT_THAT(wider(R"({"devices":["/dev/kvm"]})", R"({"devices":["/dev/fuse"]})"),
                HasSubstr("device /dev/kvm"));
    EXPECT_EQ(wider("{}", R"({"privileges":"sudo","nested_namespaces":true,"devices":["/dev/kvm"]})"), "");
}

TEST(Narrower, NamesEverythingThatIsWiderAtOnce)
{
    EXPECT_EQ(
        wider(R"({"files":[{"write":"/a"}],"network":"host","privileges":"sudo"})",
              R"({"files":[{"read":"/a"}]})"),
        "wider than the policy around it: write /a (read there); network host (off there); privileges sudo "
        "(none there)");
}

/// Small random policies over few names, so that rules meet often.
Policy random_policy(std::mt19937& random)
{
    const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
    constexpr std::string_view kParts[] = {"a", "b", "c", "*", "**", "?", "[ab]"};
    Policy policy;
    for (int rules = below(4); rules > 0; --rules) {
        std::string text;
        const int kinds = below(3) == 0 ? 7 : 3;
        for (int depth = 1 + below(3); depth > 0; --depth) (text += '/') += kParts[below(kinds)];
        const bool pattern = text.find_first_of("*?[") != std::string::npos;
        policy.files.push_back(
            {static_cast<Access>(below(3)), pattern ? Target(Glob{text}) : Target(Path{text})});
    }
    if (below(2) == 0 && !policy.files.empty())
        policy.files.push_back({static_cast<Access>(below(3)), Path{"/"}});
    const bool writes =
        std::ranges::find(policy.files, Access::Write, &FileRule::access) != policy.files.end();
    if (writes && below(2) == 0) policy.protected_names = {below(2) == 0 ? "a" : "c"};
    return policy;
}

TEST(Narrower, WhatPassesIsNarrowerForEveryPath)
{
    std::vector<std::string> paths{""};
    for (std::size_t i = 0, depth = 0; depth < 4; ++depth)
        for (const std::size_t end = paths.size(); i < end; ++i)
            for (const char* part : {"a", "b", "c", "d"})
                paths.push_back(fmt::format("{}/{}", paths[i], part));
    paths.front() = "/";

    std::mt19937 random(7);
    int passed = 0;
    int refused = 0;
    for (int round = 0; round < 8000; ++round) {
        const Policy inner = random_policy(random);
        // Half of the pairs share their rules, or patterns would never agree.
        Policy outer = random_policy(random);
        if (round % 2 == 0)
            for (const auto& rule : inner.files) outer.files.push_back(rule);
        if (!check_narrower(inner, outer, test_roots())) {
            ++refused;
            continue;
        }
        ++passed;
        const auto inside = bind_files(inner, test_roots());
        const auto around = bind_files(outer, test_roots());
        for (const auto& path : paths)
            ASSERT_LE(inside->decide(path), around->decide(path))
                << path << "\ninner " << to_toml(inner) << "\nouter " << to_toml(outer);
    }
    EXPECT_GT(passed, 400);
    EXPECT_GT(refused, 400);
}

} // namespace
} // namespace berth::policy
