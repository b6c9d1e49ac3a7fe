#include "protocol/codex/intent.hpp"

#include <gtest/gtest.h>

namespace berth::codex {
namespace {

Result<Intent> read(std::string_view text)
{
    const auto value = json::parse(text);
    EXPECT_TRUE(value) << text;
    return read_intent(json::Reader(*value));
}

std::string with_entry(const std::string& entry)
{
    return R"({"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[)" + entry +
           R"(]},"network":"restricted"},"cwd":"file:///w","windowsSandboxLevel":"disabled"})";
}

TEST(Intent, KnowsEveryVariant)
{
    const auto intent = read(
        R"({"permissions":{"type":"managed","file_system":{"type":"restricted","glob_scan_max_depth":3,"entries":[
        {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},
        {"path":{"type":"special","value":{"kind":"current_working_directory","subpath":".git/./x"}},"access":"none","missing_path_behavior":"skip"},
        {"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},
        {"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},
        {"path":{"type":"special","value":{"kind":"unknown","path":":new","subpath":"x"}},"access":"write"},
        {"path":{"type":"path","path":"file:///opt/d%20x"},"access":"deny"},
        {"path":{"type":"glob_pattern","pattern":"codex-project-roots://**/*.env"},"access":"deny"},
        {"path":{"type":"glob_pattern","pattern":"/abs/*"},"access":"none"}]},"network":"enabled"},
        "cwd":"file:///w","workspaceRoots":["file:///w","file:///x"],"windowsSandboxLevel":"mxc","useLegacyLandlock":true,
        "policyContext":{"cwd":"file:///w"},"something":"new"})");
    ASSERT_TRUE(intent) << intent.error().message;
    const auto& entries = intent->permissions.entries;
    ASSERT_EQ(entries.size(), 10u);
    EXPECT_EQ(entries[3].path, (decltype(entries[3].path)(SpecialPath{Special::ProjectRoots, ".git/x"})));
    EXPECT_EQ(entries[3].access, FileAccess::Deny);
    EXPECT_TRUE(entries[3].skip_missing);
    EXPECT_EQ(std::get<ExactPath>(entries[7].path).path, "/opt/d x");
    EXPECT_TRUE(std::get<GlobPath>(entries[8].path).below_roots);
    EXPECT_EQ(std::get<GlobPath>(entries[8].path).pattern, "**/*.env");
    EXPECT_EQ(intent->permissions.network, NetworkIntent::Enabled);
    EXPECT_EQ(intent->workspace_roots, (std::vector<std::string>{"/w", "/x"}));
    const auto again = read(json::dump(write_intent(*intent)));
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, *intent);
}

TEST(Intent, TakesABracketThatIsNotClosedForItself)
{
    for (const auto& [written, meant] : {std::pair("a[b", "a[[]b"),
                                         {"a[bc]d", "a[bc]d"},
                                         {"[]", "[[]]"},
                                         {"[]]x", "[]]x"},
                                         {"[!]", "[[]!]"},
                                         {"[!]a]", "[!]a]"},
                                         {"a[b/c]d", "a[[]b/c]d"},
                                         {"[[]", "[[]"}}) {
        const auto intent = read(with_entry(
            fmt::format(R"({{"path":{{"type":"glob_pattern","pattern":"{}"}},"access":"deny"}})", written)));
        ASSERT_TRUE(intent) << written;
        EXPECT_EQ(std::get<GlobPath>(intent->permissions.entries[0].path).pattern, meant);
    }
}

std::vector<std::string> patterns_of(const std::string& written)
{
    const auto intent = read(with_entry(
        fmt::format(R"({{"path":{{"type":"glob_pattern","pattern":"{}"}},"access":"deny"}})", written)));
    std::vector<std::string> out;
    if (!intent) return out;
    for (const auto& entry : intent->permissions.entries)
        out.push_back(std::get<GlobPath>(entry.path).pattern);
    return out;
}

TEST(Intent, WritesAlternativesOut)
{
    using Patterns = std::vector<std::string>;
    EXPECT_EQ(patterns_of("**/*.{pem,env}"), (Patterns{"**/*.pem", "**/*.env"}));
    EXPECT_EQ(patterns_of("codex-project-roots://{a,b/c}/x"), (Patterns{"a/x", "b/c/x"}));
    EXPECT_EQ(patterns_of("a/{b}"), (Patterns{"a/b"}));
    EXPECT_EQ(patterns_of("{a,b{c,d}e}{f,g}"), (Patterns{"af", "ag", "bcef", "bceg", "bdef", "bdeg"}));
    EXPECT_EQ(patterns_of("{[,}],[!}a]}b"), (Patterns{"[,}]b", "[!}a]b"}));
    EXPECT_EQ(patterns_of("[{]a,b"), (Patterns{"[{]a,b"}));
}

TEST(Intent, RefusesAPatternThatCouldMeanMoreThanItSays)
{
    for (const std::string written : {R"(a\\.pem)", R"(*\\*)", "{a,b", "a}", "a{,b}", "{}", "{a,}", "{a{b}"})
        EXPECT_TRUE(patterns_of(written).empty()) << written;
    std::string many;
    for (int i = 0; i < 8; ++i) many += "{a,b}";
    EXPECT_EQ(patterns_of(many).size(), 256u);
    EXPECT_TRUE(patterns_of(many + "{a,b}").empty());
    std::string groups;
    for (int i = 0; i < 17; ++i) groups += "{a}";
    EXPECT_TRUE(patterns_of(groups).empty());
}

TEST(Intent, WritesABraceSoThatItIsOne)
{
    Intent intent;
    intent.permissions.entries = {
        {.path = GlobPath{.pattern = "/a{b,c}/[{]*", .below_roots = false}, .access = FileAccess::Deny}};
    const auto again = read(json::dump(write_intent(intent)));
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(again->permissions.entries.size(), 1u);
    EXPECT_EQ(std::get<GlobPath>(again->permissions.entries[0].path).pattern, "/a[{]b,c[}]/[{]*");
}

TEST(Intent, KnowsWhatIsNotManaged)
{
    const auto disabled = read(R"({"permissions":{"type":"disabled"}})");
    ASSERT_TRUE(disabled);
    EXPECT_TRUE(disabled->permissions.unrestricted_files);
    EXPECT_EQ(disabled->permissions.network, NetworkIntent::Enabled);
    EXPECT_FALSE(disabled->roots_given);
    const auto external =
        read(R"({"permissions":{"type":"external","network":"restricted"},"workspaceRoots":[]})");
    ASSERT_TRUE(external);
    EXPECT_EQ(external->permissions.network, NetworkIntent::Restricted);
    EXPECT_TRUE(external->roots_given);
}

TEST(Intent, NeverReadsPastAWordItDoesNotKnow)
{
    const std::string root = R"({"path":{"type":"special","value":{"kind":"root"}},"access":"read")";
    ASSERT_TRUE(read(with_entry(root + "}")));
    for (
        const std::string& text : {
            with_entry(root + R"(,"missing_path_behavior":"create"})"),
            with_entry(R"({"path":{"type":"special","value":{"kind":"home"}},"access":"read"})"),
            with_entry(
                R"({"path":{"type":"special","value":{"kind":"root","subpath":"etc"}},"access":"read"})"),
            with_entry(
                R"({"path":{"type":"special","value":{"kind":"project_roots","subpath":"../x"}},"access":"read"})"),
            with_entry(
                R"({"path":{"type":"special","value":{"kind":"project_roots","subpath":"/x"}},"access":"read"})"),
            with_entry(R"({"path":{"type":"special","value":{"kind":"root"}},"access":"execute"})"),
            with_entry(R"({"path":{"type":"special","value":{"kind":"root"}}})"),
            with_entry(R"({"path":{"type":"regex","pattern":"x"},"access":"deny"})"),
            with_entry(R"({"path":{"type":"glob_pattern","pattern":"*"},"access":"read"})"),
            with_entry(R"({"path":{"type":"glob_pattern","pattern":""},"access":"deny"})"),
            with_entry(R"({"path":{"type":"path","path":"/native"},"access":"read"})"),
            std::string(R"({})"),
            std::string(R"({"permissions":{"type":"managed","network":"restricted"}})"),
            std::string(R"({"permissions":{"type":"managed","file_system":{"type":"unrestricted"}}})"),
            std::string(
                R"({"permissions":{"type":"managed","file_system":{"type":"loose"},"network":"restricted"}})"),
            std::string(R"({"permissions":{"type":"external","network":"some"}})"),
            std::string(R"({"permissions":{"type":"external"}})"),
            std::string(R"({"permissions":{"type":"disabled"},"windowsSandboxLevel":"new"})"),
            std::string(R"({"permissions":{"type":"disabled"},"windowsSandboxProxySettingsMode":"new"})"),
            std::string(R"({"permissions":{"type":"disabled"},"useLegacyLandlock":"yes"})"),
            std::string(R"({"permissions":{"type":"disabled"},"workspaceRoots":["/x"]})"),
            std::string(R"({"permissions":{"type":"disabled"},"cwd":7})"),
            std::string(
                R"({"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[],"glob_scan_max_depth":0},"network":"enabled"}})"),
        })
        EXPECT_FALSE(read(text)) << text;
}

TEST(Intent, BoundsWhatItsPatternsCost)
{
    const auto with_patterns = [](int count) {
        std::string entries;
        for (int i = 0; i < count; ++i)
            entries += fmt::format(R"({}{{"path":{{"type":"glob_pattern","pattern":"{}"}},"access":"deny"}})",
                                   i == 0 ? "" : ",", std::string(4000, 'a'));
        return R"({"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[)" +
               entries + R"(]},"network":"restricted"}})";
    };
    EXPECT_TRUE(read(with_patterns(16)));
    EXPECT_FALSE(read(with_patterns(17)));
}

TEST(Intent, NeedsNothingBesideThePermissions)
{
    EXPECT_TRUE(read(R"({"permissions":{"type":"disabled"}})"));
    EXPECT_TRUE(read(R"({"permissions":{"type":"disabled"},"windowsSandboxLevel":null,"cwd":null,
                         "workspaceRoots":null,"windowsSandboxProxySettingsMode":null,"useLegacyLandlock":null})"));
}

TEST(Intent, TellsPathsOfOtherPlatformsApart)
{
    const auto intent = read(R"({"permissions":{"type":"disabled"},"workspaceRoots":["file:///C:/x"]})");
    ASSERT_FALSE(intent);
    EXPECT_EQ(intent.error().code, Code::Unsupported);
}

} // namespace
} // namespace berth::codex
