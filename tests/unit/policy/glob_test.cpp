#include <chrono>

#include <gtest/gtest.h>

#include "policy/bind.hpp"

namespace berth::policy {
namespace {

struct Case {
    std::string_view pattern;
    std::string_view path;
    bool matches;
};

TEST(Glob, MatchesLikeTheTableSays)
{
    constexpr Case kCases[] = {
        {"/a", "/a", true},
        {"/a", "/b", false},
        {"/a", "/a/b", false},
        {"/*", "/a", true},
        {"/*", "/a/b", false},
        {"/*", "/", false},
        {"/*", "/.hidden", true},
        {"/a*c", "/abc", true},
        {"/a*c", "/ac", true},
        {"/a*c", "/abcd", false},
        {"/a*b*c", "/aXbYbZc", true},
        {"/a*b*c", "/aXcYb", false},
        {"/?", "/a", true},
        {"/?", "/ab", false},
        {"/?", "/", false},
        {"/?", "/é", true},
        {"/??", "/é", false},
        {"/?", "/\xff", true},
        {"/?", "/\xc3", true},
        {"/[abc]", "/b", true},
        {"/[abc]", "/d", false},
        {"/[a-c]x", "/bx", true},
        {"/[!a-c]", "/b", false},
        {"/[^a-c]", "/d", true},
        {"/[]a]", "/]", true},
        {"/[a-]", "/-", true},
        {"/[!]]", "/]", false},
        {"/[é-ü]", "/ö", true},
        {"/[é-ü]", "/z", false},
        {"/[*]", "/*", true},
        {"/[*]", "/a", false},
        {"/[[]", "/[", true},
        {"**/.env", "/.env", true},
        {"**/.env", "/a/.env", true},
        {"**/.env", "/a/b/.env", true},
        {"**/.env", "/a/.envx", false},
        {"**/.env", "/a/.env/x", false},
        {"/**/.env", "/.env", true},
        {"/a/**/b", "/a/b", true},
        {"/a/**/b", "/a/x/y/b", true},
        {"/a/**/b", "/b", false},
        {"/a/**/b", "/a/bb", false},
        {"/a/**/b/**/c", "/a/b/x/b/c", true},
        {"/a/**/b/**/c", "/a/c/b", false},
        {"/a/**", "/a", false},
        {"/a/**", "/a/b", true},
        {"/a/**", "/a/b/c", true},
        {"/a/**", "/ab", false},
        {"/**", "/", false},
        {"/**", "/a", true},
        {"**/**/x", "/x", true},
        {"/a/**/*.c", "/a/b/c.c", true},
        {"/a/**/*.c", "/a/c.h", false},
    };
    for (const auto& [pattern, path, matches] : kCases)
        EXPECT_EQ(glob_match(pattern, path), matches) << pattern << " on " << path;
}

TEST(Glob, CoversWhatLiesBelowAMatch)
{
    EXPECT_TRUE(glob_covers("**/secrets", "/w/secrets"));
    EXPECT_TRUE(glob_covers("**/secrets", "/w/secrets/deep/key"));
    EXPECT_FALSE(glob_covers("**/secrets", "/w/public/key"));
    EXPECT_FALSE(glob_covers("/w/*/x", "/w/a"));
    EXPECT_TRUE(glob_covers("/w/*/x", "/w/a/x/y"));
}

/// The obvious definition, exponential: what the quick one is compared with.
bool slow_match(std::string_view pattern, std::string_view path)
{
    if (pattern.empty()) return path.empty();
    if (pattern == "/**") return path.size() > 1 && path.front() == '/';
    if (pattern.starts_with("/**/")) {
        if (path.empty() || path.front() != '/') return false;
        if (slow_match(pattern.substr(3), path)) return true;
        const std::size_t slash = path.find('/', 1);
        return slash != std::string_view::npos && slow_match(pattern, path.substr(slash));
    }
    if (pattern.front() == '*') {
        if (slow_match(pattern.substr(1), path)) return true;
        return !path.empty() && path.front() != '/' && slow_match(pattern, path.substr(1));
    }
    if (path.empty()) return false;
    if (pattern.front() == '?') return path.front() != '/' && slow_match(pattern.substr(1), path.substr(1));
    return pattern.front() == path.front() && slow_match(pattern.substr(1), path.substr(1));
}

TEST(Glob, AgreesWithTheObviousDefinition)
{
    constexpr std::string_view kPatternParts[] = {"a", "b", "*", "**", "?", "a*", "*b", "*a*"};
    constexpr std::string_view kPathParts[] = {"a", "b", "ab", "aab"};
    std::vector<std::string> patterns{""};
    std::vector<std::string> paths{""};
    for (std::size_t i = 0, length = 0; length < 3; ++length)
        for (const std::size_t end = patterns.size(); i < end; ++i)
            for (const auto part : kPatternParts) patterns.push_back(fmt::format("{}/{}", patterns[i], part));
    for (std::size_t i = 0, length = 0; length < 4; ++length)
        for (const std::size_t end = paths.size(); i < end; ++i)
            for (const auto part : kPathParts) paths.push_back(fmt::format("{}/{}", paths[i], part));
    for (std::size_t i = 1; i < patterns.size(); ++i)
        for (std::size_t j = 1; j < paths.size(); ++j)
            ASSERT_EQ(glob_match(patterns[i], paths[j]), slow_match(patterns[i], paths[j]))
                << patterns[i] << " on " << paths[j];
}

TEST(Glob, IsQuickOnPatternsMadeToBeSlow)
{
    std::string stars;
    std::string pattern;
    for (int i = 0; i < 400; ++i) stars += "/**/a*a*a";
    for (int i = 0; i < 120; ++i) pattern += "*a";
    const std::string path = "/" + std::string(255, 'a');
    std::string deep;
    for (int i = 0; i < 1300; ++i) deep += "/aa";
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(glob_match("/" + pattern + "b", path));
    EXPECT_FALSE(glob_covers(stars + "/b", deep));
    // Backtracking would take longer than the universe; this is milliseconds.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

} // namespace
} // namespace berth::policy
