#include "policy/bind.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/document.hpp"

namespace berth::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Roots roots_with(std::vector<std::string> workspaces)
{
    Roots roots;
    roots.workspaces = std::move(workspaces);
    return roots;
}

BoundFiles bound(std::string_view document, const Roots& roots = roots_with({"/w"}))
{
    const auto policy = parse(document, Syntax::Json);
    if (!policy) ADD_FAILURE() << policy.error().message;
    auto files = bind_files(policy ? *policy : Policy{}, roots);
    if (!files) ADD_FAILURE() << files.error().message;
    return files ? *std::move(files) : BoundFiles{};
}

std::string refusal(const Policy& policy, const Roots& roots = roots_with({"/w"}))
{
    const auto files = bind_files(policy, roots);
    if (files) return "it was bound";
    EXPECT_EQ(files.error().code, Code::Invalid);
    return files.error().message;
}

std::vector<std::string> shown(const BoundFiles& files)
{
    std::vector<std::string> out;
    for (const auto& rule : files.rules)
        out.push_back(fmt::format("{} {}{}", to_string(rule.access), rule.path, rule.pattern));
    return out;
}

TEST(Bind, ReplacesSymbolsAndSortsShortestFirst)
{
    const auto files =
        bound(R"({"files": [{"deny": "**/.env"}, {"write": ":workspace_roots/build"}, {"write": ":home"},
                                 {"read": "/"}, {"write": ":tmpdir"}, {"deny": ":workspace_roots/*.pem"}]})",
              roots_with({"/w", "/srv/[x]"}));
    EXPECT_THAT(shown(files), ElementsAre("read /", "write /tmp", "write /var/tmp", "write /w/build",
                                          "write /home/user", "write /srv/[x]/build", "deny /**/.env",
                                          "deny /srv/[[]x]/*.pem", "deny /w/*.pem"));
    EXPECT_EQ(files.rules.at(3).source, ":workspace_roots/build");
}

TEST(Bind, ASymbolWithoutAPlaceIsListed)
{
    const auto files = bound(R"({"extends": "workspace-write"})", roots_with({}));
    EXPECT_THAT(files.unbound, ElementsAre(":workspace_roots"));
    EXPECT_EQ(files.decide("/tmp/x"), Access::Write);
    EXPECT_EQ(files.decide("/w/x"), Access::Read);
}

TEST(Bind, RulesOfWhichNoneHasAPlaceAreNotNoRules)
{
    Policy policy;
    policy.files = {{Access::Read, Symbolic{Symbol::WorkspaceRoots, {}}}};
    EXPECT_THAT(refusal(policy, roots_with({})),
                HasSubstr("no file rule has a place here: :workspace_roots"));
}

TEST(Bind, TheLesserAccessHoldsWhereTwoRulesMeet)
{
    const auto files = bound(
        R"({"files": [{"write": ":home"}, {"read": "/home/user"}, {"deny": "/tmp"}, {"write": ":tmpdir"}]})");
    EXPECT_THAT(shown(files), ElementsAre("deny /tmp", "write /var/tmp", "read /home/user"));
}

TEST(Bind, ChecksPoliciesThatNoParserSaw)
{
    const auto with = [](Target target) {
        Policy policy;
        policy.files = {{Access::Write, std::move(target)}};
        return policy;
    };
    EXPECT_THAT(refusal(with(Path{"etc"})), HasSubstr("'etc' is not absolute"));
    EXPECT_THAT(refusal(with(Path{"/a/../b"})), HasSubstr("is not normalised"));
    EXPECT_THAT(refusal(with(Path{std::string("/a\0b", 4)})), HasSubstr("contains NUL"));
    EXPECT_THAT(refusal(with(Glob{"a*"})), HasSubstr("is relative"));
    EXPECT_THAT(refusal(with(Glob{"/[a"})), HasSubstr("not closed"));
    EXPECT_THAT(refusal(with(Symbolic{Symbol::Home, "../x"})), HasSubstr("contains .."));
    EXPECT_EQ(refusal(with(Path{"/a"})), "it was bound");
    Policy names = with(Path{"/a"});
    names.protected_names = {"../x"};
    EXPECT_THAT(refusal(names), HasSubstr("not a plain name"));
    Policy nowhere;
    nowhere.protected_names = {".git"};
    EXPECT_THAT(refusal(nowhere), HasSubstr("protect needs a write rule"));
    EXPECT_THAT(refusal(with(Symbolic{Symbol::WorkspaceRoots, {}}), roots_with({"relative"})),
                HasSubstr("'relative' is not absolute"));
    Policy many;
    many.files.assign(4097, {Access::Read, Path{"/a"}});
    EXPECT_THAT(refusal(many), HasSubstr("4097 file rules"));
}

TEST(Decide, WithoutRulesThePrivateRootIsOpen)
{
    const auto files = bound("{}");
    EXPECT_TRUE(files.empty());
    EXPECT_EQ(files.decide("/etc/passwd"), Access::Write);
}

TEST(Decide, TheMostSpecificRuleWins)
{
    const auto files =
        bound(R"({"files": [{"read": ":root"}, {"deny": "/a"}, {"write": "/a/b"}, {"read": "/a/b/c"},
                                           {"deny": "**/.env"}, {"read": "/a/b/*.lock"}]})");
    const std::pair<std::string_view, Access> table[] = {
        {"/", Access::Read},           {"/etc/passwd", Access::Read},  {"/a", Access::Deny},
        {"/a/x", Access::Deny},        {"/ab", Access::Read},          {"/a/b", Access::Write},
        {"/a/b/x/y", Access::Write},   {"/a/bc", Access::Deny},        {"/a/b/c", Access::Read},
        {"/a/b/c/d", Access::Read},    {"/a/b/.env", Access::Deny},    {"/.env", Access::Deny},
        {"/a/b/.env/x", Access::Deny}, {"/a/b/go.lock", Access::Read}, {"/a/b/x/go.lock", Access::Write},
        {"/a//b/./x", Access::Write},  {"/a/b/../x", Access::Deny},    {"relative", Access::Deny},
        {"/../etc", Access::Deny},
    };
    for (const auto& [path, access] : table) EXPECT_EQ(files.decide(path), access) << path;
}

TEST(Decide, WhatNoRuleCoversIsDenied)
{
    const auto files = bound(R"({"files": [{"read": ":minimal"}]})");
    EXPECT_EQ(files.decide("/usr/bin/env"), Access::Read);
    EXPECT_EQ(files.decide("/home/user"), Access::Deny);
    EXPECT_EQ(files.decide("/"), Access::Deny);
}

TEST(Decide, AmongPatternsTheLeastWins)
{
    const auto files = bound(R"({"files": [{"write": "/w/**/*.c"}, {"deny": "**/x*"}, {"read": "**/*y*"}]})");
    EXPECT_EQ(files.decide("/w/a.c"), Access::Write);
    EXPECT_EQ(files.decide("/w/y.c"), Access::Read);
    EXPECT_EQ(files.decide("/w/xy.c"), Access::Deny);
}

TEST(Decide, ProtectedNamesStayReadOnlyBelowAWritableRule)
{
    const auto files =
        bound(R"({"extends": "workspace-write"})", roots_with({"/w", "/srv/.claude/worktrees/x"}));
    EXPECT_EQ(files.decide("/w/src/main.c"), Access::Write);
    EXPECT_EQ(files.decide("/w/.git"), Access::Read);
    EXPECT_EQ(files.decide("/w/sub/.git/hooks/pre-commit"), Access::Read);
    EXPECT_EQ(files.decide("/w/.gitignore"), Access::Write);
    EXPECT_EQ(files.decide("/w/.GIT"), Access::Write)
        << "exact; a case-folding file system is the executor's";
    // A workspace that itself lies below such a name is still a workspace.
    EXPECT_EQ(files.decide("/srv/.claude/worktrees/x/main.c"), Access::Write);
    EXPECT_EQ(files.decide("/srv/.claude/worktrees/x/.claude/settings.json"), Access::Read);
}

TEST(Decide, AProtectedNameDoesNotOpenWhatIsDenied)
{
    const auto files = bound(R"({"files": [{"write": "/w"}, {"deny": "/w/a"}], "protect": [".git"]})");
    EXPECT_EQ(files.decide("/w/a/.git"), Access::Deny);
}

TEST(Normalise, KeepsOneSpelling)
{
    const std::pair<std::string_view, std::string_view> table[] = {
        {"/", "/"},          {"//", "/"},    {"/.", "/"},      {"/a/", "/a"},        {"/a//b", "/a/b"},
        {"/a/./b/..", "/a"}, {"/a/..", "/"}, {"/...", "/..."}, {"/a/..b", "/a/..b"},
    };
    for (const auto& [path, clean] : table) EXPECT_EQ(normalise(path).value_or("refused"), clean) << path;
    for (const std::string_view bad : {std::string_view("a"), std::string_view(""), std::string_view("/.."),
                                       std::string_view("/a/../.."), std::string_view("/a\0", 3)})
        EXPECT_FALSE(normalise(bad)) << bad;
    EXPECT_FALSE(normalise("/" + std::string(4096, 'a')));
}

} // namespace
} // namespace berth::policy
