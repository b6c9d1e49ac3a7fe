#include "policy/document.hpp"

#include <fstream>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/scope_exit.hpp"

namespace berth::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Policy must_parse(std::string_view text, Syntax syntax = Syntax::Json)
{
    auto policy = parse(text, syntax);
    if (!policy) ADD_FAILURE() << text << "\n" << policy.error().message;
    return policy ? *std::move(policy) : Policy{};
}

std::vector<std::string> shown(const Policy& policy)
{
    std::vector<std::string> out;
    for (const auto& rule : policy.files)
        out.push_back(fmt::format("{} {}", to_string(rule.access), to_string(rule.target)));
    return out;
}

struct Bad {
    std::string_view text;
    std::string_view message; ///< the place, and the start of what is said of it
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.text.substr(0, 100); }

class BadJson : public testing::TestWithParam<Bad> {};
class BadToml : public testing::TestWithParam<Bad> {};

TEST_P(BadJson, IsRefusedByPlace)
{
    const auto policy = parse(GetParam().text, Syntax::Json);
    ASSERT_FALSE(policy);
    EXPECT_EQ(policy.error().code, Code::Invalid);
    EXPECT_THAT(policy.error().message, StartsWith(std::string(GetParam().message)));
}

TEST_P(BadToml, IsRefusedByPlace)
{
    const auto policy = parse(GetParam().text, Syntax::Toml);
    ASSERT_FALSE(policy);
    EXPECT_EQ(policy.error().code, Code::Invalid);
    EXPECT_THAT(policy.error().message, StartsWith(std::string(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Shape, BadJson,
    testing::Values(
        Bad{"", "not JSON at line 1"}, Bad{"{", "not JSON at line 1"}, Bad{"{} {}", "not JSON at line 1"},
        Bad{"{\n\"network\": off}", "not JSON at line 2"}, Bad{"[]", "/: expected an object, found an array"},
        Bad{"null", "/: expected an object, found null"},
        Bad{R"({"netwrok": "off"})", R"(/netwrok: unknown field, did you mean "network"?)"},
        Bad{R"({"allow": []})", "/allow: unknown field"},
        Bad{R"({"network": "off", "network": "host"})", R"(key "network" stands twice)"},
        Bad{R"({"limits": {"pids": 1, "pids": 2}})", R"(key "pids" stands twice)"},
        Bad{R"({"name": ""})", "/name: a name has 1 to 128 bytes"},
        Bad{R"({"name": "a\u0007"})", "/name: 'a\\x07' contains a control character"},
        Bad{R"({"name": null})", "/name: expected a string, found null"},
        Bad{R"({"extends": "workspace_write"})",
            "/extends: no preset 'workspace_write', did you mean 'workspace-write'?"},
        Bad{R"({"extends": "nothing-like-it"})", "/extends: no preset 'nothing-like-it': one of sandbox, "},
        Bad{R"({"extends": ["sandbox"]})", "/extends: expected a string, found an array"},
        Bad{R"({"privileges": "root"})", "/privileges: no privileges 'root': none or sudo"},
        Bad{R"({"privileges": true})", "/privileges: expected a string, found a boolean"},
        Bad{R"({"nested_namespaces": "yes"})", "/nested_namespaces: expected true or false, found a string"},
        Bad{R"({"devices": []})", "/devices: an empty list"},
        Bad{R"({"devices": ["/dev/kvm", "/dev/./kvm"]})",
            "/devices/1: '/dev/./kvm' stands in the list already"},
        Bad{R"({"devices": ["/etc/passwd"]})", "/devices/0: '/etc/passwd' is not a path below /dev"},
        Bad{R"({"devices": ["/dev/../etc/shadow"]})", "/devices/0: '/dev/../etc/shadow' contains .."},
        Bad{R"({"devices": ["/dev/sd*"]})", "/devices/0: '/dev/sd*' is not a path below /dev"},
        Bad{R"({"devices": ["/dev"]})", "/devices/0: '/dev' is not a path below /dev"}));

INSTANTIATE_TEST_SUITE_P(
    Files, BadJson,
    testing::Values(
        Bad{R"({"files": {}})", "/files: expected an array, found an object"},
        Bad{R"({"files": []})", "/files: an empty list"},
        Bad{R"({"files": null})", "/files: expected an array"},
        Bad{R"({"files": ["/a"]})", "/files/0: expected an object, found a string"},
        Bad{R"({"files": [{}]})", "/files/0: a rule has one of"},
        Bad{R"({"files": [{"read": "/a", "write": "/b"}]})", "/files/0: a rule has one of"},
        Bad{R"({"files": [{"reed": "/a"}]})", R"(/files/0/reed: unknown field, did you mean "read"?)"},
        Bad{R"({"files": [{"read": 1}]})", "/files/0/read: expected a string, found a number"},
        Bad{R"({"files": [{"read": ""}]})", "/files/0/read: the path is empty"},
        Bad{R"({"files": [{"read": "etc"}]})", "/files/0/read: 'etc' is relative"},
        Bad{R"({"files": [{"read": "*.c"}]})", "/files/0/read: '*.c' is relative"},
        Bad{R"({"files": [{"read": "**"}]})", "/files/0/read: '**' is relative"},
        Bad{R"({"files": [{"read": "/a/../b"}]})", "/files/0/read: '/a/../b' contains .."},
        Bad{R"({"files": [{"read": ":home/../x"}]})", "/files/0/read: '/../x' contains .."},
        Bad{R"({"files": [{"read": "/a\u0000b"}]})",
            "/files/0/read: '/a\\x00b' contains a control character"},
        Bad{R"({"files": [{"read": "/a\nb"}]})", "/files/0/read: '/a\\nb' contains a control character"},
        Bad{R"({"files": [{"read": "/a\u007f"}]})", "/files/0/read: '/a\\x7f' contains a control character"},
        Bad{R"({"files": [{"read": "/a\u009b"}]})",
            "/files/0/read: '/a\\xc2\\x9b' contains a control character"},
        Bad{R"({"files": [{"read": ":workspace_root"}]})",
            "/files/0/read: no symbol ':workspace_root', did you mean ':workspace_roots'?"},
        Bad{R"({"files": [{"read": ":"}]})", "/files/0/read: no symbol ':'"},
        Bad{R"({"files": [{"read": ":rootx"}]})", "/files/0/read: no symbol ':rootx'"},
        Bad{R"({"files": [{"read": ":minimal/x"}]})", "/files/0/read: ':minimal/x': :minimal is a list"},
        Bad{R"({"files": [{"read": "/a/[bc"}]})", "/files/0/read: '[bc': the set is not closed"},
        Bad{R"({"files": [{"read": "/a/[b/c]"}]})", "/files/0/read: '[b': the set is not closed"},
        Bad{R"({"files": [{"read": "/a/[z-a]"}]})", "/files/0/read: '[z-a]': the range runs backwards"},
        Bad{R"({"files": [{"read": "/a/[ü-é]"}]})", "/files/0/read: '[ü-é]': the range runs backwards"},
        Bad{R"({"files": [{"read": "/a**/b"}]})", "/files/0/read: 'a**': ** must stand alone"},
        Bad{R"({"files": [{"read": "/a/\\*"}]})", "/files/0/read: '\\*': a backslash does not escape"},
        Bad{R"({"files": [{"deny": ":root"}]})", "/files/0/deny: denying everything"},
        Bad{R"({"files": [{"deny": "/"}]})", "/files/0/deny: denying everything"},
        Bad{R"({"files": [{"deny": "//./"}]})", "/files/0/deny: denying everything"},
        Bad{R"({"files": [{"deny": "/**"}]})", "/files/0/deny: denying everything"},
        Bad{R"({"files": [{"deny": "**/*"}]})", "/files/0/deny: denying everything"},
        Bad{R"({"files": [{"read": "/a"}, {"read": "/a/"}]})",
            R"(/files/1/read: "/a" is read at /files/0/read already)"},
        Bad{R"({"files": [{"write": "/a"}, {"read": "/b"}, {"deny": "/a"}]})",
            R"(/files/2/deny: "/a" is write at /files/0/write already)"},
        Bad{R"({"files": [{"read": "/etc"}, {"write": ":root/etc"}]})",
            R"(/files/1/write: "/etc" is read at /files/0/read already)"},
        Bad{R"({"files": [{"deny": "**/.env"}, {"deny": "/**/.env"}]})",
            R"(/files/1/deny: "**/.env" is deny at /files/0/deny already)"},
        Bad{R"({"protect": [".git"]})", "/protect: protect needs a write rule"},
        Bad{R"({"files": [{"read": ":root"}], "protect": [".git"]})", "/protect: protect needs a write rule"},
        Bad{R"({"extends": "workspace-write", "protect": []})", "/protect: an empty list"},
        Bad{R"({"extends": "workspace-write", "protect": ["a/b"]})", "/protect/0: 'a/b' is not a plain name"},
        Bad{R"({"extends": "workspace-write", "protect": [".."]})", "/protect/0: '..' is not a plain name"},
        Bad{R"({"extends": "workspace-write", "protect": [""]})", "/protect/0: the name is empty"},
        Bad{R"({"extends": "workspace-write", "protect": ["*.pem"]})", "/protect/0: '*.pem' is a pattern"},
        Bad{R"({"extends": "workspace-write", "protect": ["a\u0000"]})",
            "/protect/0: 'a\\x00' contains a control"},
        Bad{R"({"extends": "workspace-write", "protect": ["a", "b", "a"]})",
            R"(/protect/2: "a" stands at /protect/0)"},
        Bad{R"({"extends": "workspace-write", "files": [{"deny": "/x"}, {"write": ":workspace_roots/.git"}]})",
            R"(/files/1/write: writing ":workspace_roots/.git" contradicts the protected name ".git")"},
        Bad{R"({"protect": ["keys"], "files": [{"write": "/a/keys/b"}]})",
            R"(/files/0/write: writing "/a/keys/b" contradicts the protected name "keys")"}));

INSTANTIATE_TEST_SUITE_P(
    Network, BadJson,
    testing::Values(
        Bad{R"({"network": "opn"})", R"(/network: no network 'opn', did you mean "open"?)"},
        Bad{R"({"network": "everything"})", "/network: no network 'everything'"},
        Bad{R"({"network": true})", "/network: expected "},
        Bad{R"({"network": null})", "/network: expected "},
        Bad{R"({"network": {}})", R"(/network: missing "allow")"},
        Bad{R"({"network": {"allow": [], "deny": []}})", "/network/deny: unknown field"},
        Bad{R"({"network": {"allow": ["pypi.org"]}})", "/network/allow/0: expected an object"},
        Bad{R"({"network": {"allow": [{}]}})", R"(/network/allow/0: missing "host")"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "port": 1}]}})",
            R"(/network/allow/0/port: unknown field, did you mean "ports"?)"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": [0]}]}})",
            "/network/allow/0/ports/0: out of range"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": [65536]}]}})",
            "/network/allow/0/ports/0: out of"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": [1.5]}]}})",
            "/network/allow/0/ports/0: expected a whole"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": []}]}})",
            "/network/allow/0/ports: an empty list"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": [1, 1]}]}})",
            "/network/allow/0/ports/1: port 1 twice"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": null}]}})",
            "/network/allow/0/ports: expected an array"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "methods": ["get"]}]}})",
            "/network/allow/0/methods/0: 'get' is not an HTTP method"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "methods": ["GET", "GET"]}]}})",
            "/network/allow/0/methods/1: method GET twice"},
        Bad{R"({"network": {"allow": [{"host": "A.b"}, {"host": "a.B"}]}})",
            "/network/allow/1: the same destination stands at /network/allow/0 already"},
        Bad{R"({"network": {"allow": [{"host": "a.b", "ports": [1, 2]}, {"host": "a.b", "ports": [2, 1]}]}})",
            "/network/allow/1: the same destination stands at /network/allow/0 already"},
        Bad{R"({"network": {"allow": [{"host": "*"}]}})", "/network/allow/0/host: '*' is every host"}));

INSTANTIATE_TEST_SUITE_P(
    Limits, BadJson,
    testing::Values(Bad{R"({"limits": []})", "/limits: expected an object, found an array"},
                    Bad{R"({"limits": {"ram": "1G"}})", "/limits/ram: unknown field"},
                    Bad{R"({"limits": {"memory": 5}})", "/limits/memory: expected a string, found a number"},
                    Bad{R"({"limits": {"memory": "lots"}})", "/limits/memory: bad size 'lots'"},
                    Bad{R"({"limits": {"memory": "64 MiB"}})", "/limits/memory: bad size '64 MiB'"},
                    Bad{R"({"limits": {"memory": "0"}})", "/limits/memory: a limit of nothing"},
                    Bad{R"({"limits": {"memory": "unlimited"}})", "/limits/memory: bad size"},
                    Bad{R"({"limits": {"disk": "10000T"}})", "/limits/disk: over 8192 TiB"},
                    Bad{R"({"limits": {"cpus": 0}})", "/limits/cpus: out of range"},
                    Bad{R"({"limits": {"cpus": -1}})", "/limits/cpus: out of range"},
                    Bad{R"({"limits": {"cpus": 1e300}})", "/limits/cpus: out of range"},
                    Bad{R"({"limits": {"cpus": 1.00005}})", "/limits/cpus: finer than a thousandth"},
                    Bad{R"({"limits": {"cpus": "1"}})", "/limits/cpus: expected a number, found a string"},
                    Bad{R"({"limits": {"pids": 0}})", "/limits/pids: out of range"},
                    Bad{R"({"limits": {"pids": 4194305}})", "/limits/pids: out of range"},
                    Bad{R"({"limits": {"pids": 18446744073709551615}})", "/limits/pids: out of range"},
                    Bad{R"({"limits": {"pids": 1.0}})", "/limits/pids: expected a whole number"},
                    Bad{R"({"limits": {"pids": "many"}})",
                        R"(/limits/pids: expected a whole number or "unlimited")"},
                    Bad{R"({"limits": {"open_files": -1}})", "/limits/open_files: out of range"},
                    Bad{R"({"limits": {"wall_time": "soon"}})", "/limits/wall_time: bad duration 'soon'"},
                    Bad{R"({"limits": {"wall_time": 10}})", "/limits/wall_time: expected a string"},
                    Bad{R"({"limits": {"wall_time": "0s"}})", "/limits/wall_time: a limit of nothing"}));

INSTANTIATE_TEST_SUITE_P(
    Toml, BadToml,
    testing::Values(Bad{"network = ", "not TOML at line 1"},
                    Bad{"network = \"off\"\nnetwork = \"host\"", "not TOML at line 2"},
                    Bad{"[limits]\npids = 1\n[limits]\ndisk = \"1G\"", "not TOML at line 3"},
                    Bad{"[limits]\npids = 1\npids = 2", "not TOML at line 3"},
                    Bad{"\xc9\x84la", "not TOML at line 1: only strings and comments go beyond ASCII"},
                    Bad{"x = 1'\xc9\x84'", "not TOML at line 1: a quote in the middle of a word"},
                    Bad{"files = [ }", "not TOML"}, Bad{"files = [\n },\n", "not TOML"},
                    Bad{"netwrok = \"off\"", "/netwrok: unknown field"},
                    Bad{"name = 1979-05-27", "not TOML at line 1: dates and times"},
                    Bad{"[limits]\nwall_time = 07:32:00", "not TOML at line 2: dates and times"},
                    Bad{"[limits]\ncpus = inf", "/limits/cpus: out of range"},
                    Bad{"[limits]\ncpus = nan", "/limits/cpus: out of range"},
                    Bad{"[limits]\nmemory = 64", "/limits/memory: expected a string, found a number"},
                    Bad{"name = \"\"\"\na\"\"\"", "not TOML at line 1: multi-line strings"},
                    Bad{"name = '''a'''", "not TOML at line 1: multi-line strings"},
                    Bad{"name = \"a\x01\"", "not TOML at line 1: a control character"},
                    Bad{"a\r=1", "not TOML at line 1: a control character"},
                    Bad{"\na.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1",
                        "not TOML at line 2: a key of too many parts"},
                    Bad{"[[files]]\nread = \"/a\"\n[[files]]\ndeny = \"/a\"",
                        R"(/files/1/deny: "/a" is read at /files/0/read already)"},
                    Bad{"[[files]]\nwrite = \"../x\"", "/files/0/write: '../x' is relative"}));

TEST(Document, EmptyIsTheSandboxPresetWithoutAName)
{
    Policy expected = *preset("sandbox");
    expected.name.clear();
    EXPECT_EQ(must_parse("{}"), expected);
    EXPECT_EQ(must_parse("", Syntax::Toml), expected);
}

TEST(Document, ReadsEveryFieldAlikeInBothSyntaxes)
{
    const Policy from_json = must_parse(R"({
        "name": "ci", "extends": "workspace-write",
        "files": [{"read": ":root"}, {"write": "/data/"}, {"deny": "**/.env"}, {"deny": ":workspace_roots/**/*.pem"}],
        "protect": [".git", "keys"],
        "network": {"allow": [{"host": "PyPI.org", "ports": [443], "methods": ["GET", "HEAD"]}, {"host": "10.0.0.0/8"}]},
        "limits": {"memory": "2GiB", "cpus": 1.5, "pids": 512, "disk": "1GiB", "open_files": 1024, "wall_time": "10m"},
        "privileges": "sudo", "nested_namespaces": true, "devices": ["/dev/kvm"] })");
    const Policy from_toml = must_parse(R"(
        name = "ci"
        extends = 'workspace-write' # a comment with "quotes" and a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r dots
        files = [{ read = ":root" }, { write = "/data" }, { deny = "**/.env" }, { deny = ":workspace_roots/**/*.pem" }]
        protect = [".git", "keys"]
        privileges = "sudo"
        nested_namespaces = true
        devices = ["/dev/kvm"]
        [[network.allow]]
        host = "pypi.org"
        ports = [443]
        methods = ["GET", "HEAD"]
        [[network.allow]]
        host = "10.0.0.0/8"
        [limits]
        memory = "2GiB"
        cpus = 1.5
        pids = 512
        disk = "1GiB"
        open_files = 1024
        wall_time = "10m")",
                                        Syntax::Toml);
    EXPECT_EQ(from_json, from_toml);
    EXPECT_EQ(from_json.name, "ci");
    EXPECT_THAT(shown(from_json),
                ElementsAre("read :root", "write :workspace_roots", "write :tmpdir", "write /data",
                            "deny **/.env", "deny :workspace_roots/**/*.pem"));
    EXPECT_THAT(from_json.protected_names, testing::IsSupersetOf({".git", ".codex", "keys"}));
    EXPECT_EQ(from_json.network, Network::Allow);
    EXPECT_EQ(from_json.allow.at(0), (NetworkRule{"pypi.org", {443}, {"GET", "HEAD"}}));
    EXPECT_EQ(from_json.limits.memory, 2_GiB);
    EXPECT_EQ(from_json.limits.cpus, 1.5);
    EXPECT_EQ(from_json.limits.wall_time, std::chrono::minutes(10));
    EXPECT_EQ(from_json.privileges, Privileges::Sudo);
    EXPECT_TRUE(from_json.nested_namespaces);
    EXPECT_THAT(from_json.devices, ElementsAre("/dev/kvm"));
}

TEST(Document, ARuleOnThePresetsTargetReplacesIt)
{
    const Policy policy = must_parse(R"({"extends": "workspace-write", "files": [{"deny": ":tmpdir"}]})");
    EXPECT_THAT(shown(policy), ElementsAre("read :root", "write :workspace_roots", "deny :tmpdir"));
}

TEST(Document, ThePresetsProtectedNamesFallAwayWhenNothingIsWritable)
{
    const Policy policy = must_parse(
        R"({"extends": "workspace-write", "files": [{"read": ":workspace_roots"}, {"read": ":tmpdir"}]})");
    EXPECT_TRUE(policy.protected_names.empty());
}

TEST(Document, TheOrderOfFieldsDoesNotMatter)
{
    EXPECT_EQ(must_parse(R"({"extends": "read-only", "files": [{"write": "/a"}], "protect": ["x"]})"),
              must_parse(R"({"protect": ["x"], "files": [{"write": "/a"}], "extends": "read-only"})"));
}

TEST(Document, GivesEachTargetOneSpelling)
{
    const Policy policy =
        must_parse(R"({"files": [{"read": "/"}, {"write": "//a/./b//"}, {"write": ":root/c"},
        {"deny": "/**/.env"}, {"deny": ":root/d/*"}, {"write": ":home//x/."}]})");
    EXPECT_THAT(shown(policy), ElementsAre("read :root", "write /a/b", "write /c", "deny **/.env",
                                           "deny /d/*", "write :home/x"));
}

TEST(Document, LimitsOfThePresetAreLiftedOnlyInWriting)
{
    EXPECT_EQ(must_parse(R"({"limits": {"memory": "1G"}})").limits.pids, 4096u);
    EXPECT_EQ(must_parse(R"({"limits": {"pids": "unlimited"}})").limits.pids, std::nullopt);
}

TEST(Document, NetworkAllowAndOpenAreWordsOfTheDocumentEverywhere)
{
    EXPECT_EQ(must_parse(R"({"network": "open"})").network, Network::Open);
    EXPECT_EQ(must_parse(R"({"network": "host"})").network, Network::Host);
    const Policy nothing = must_parse(R"({"network": "allow"})");
    EXPECT_EQ(nothing.network, Network::Allow);
    EXPECT_TRUE(nothing.allow.empty());
}

TEST(Document, BoundsWhatAHostileOneMayCost)
{
    const auto refused = [](const std::string& text, Syntax syntax) {
        const auto policy = parse(text, syntax);
        return policy ? std::string("it parsed") : policy.error().message;
    };
    std::string rules;
    for (int i = 0; i < 4097; ++i) rules += fmt::format("{}{{\"read\":\"/a{}\"}}", i == 0 ? "" : ",", i);
    EXPECT_THAT(refused("{\"files\":[" + rules + "]}", Syntax::Json),
                StartsWith("/files: 4097 file rules; at most 4096"));
    std::string patterns;
    for (int i = 0; i < 257; ++i) patterns += fmt::format("{}{{\"deny\":\"**/a{}\"}}", i == 0 ? "" : ",", i);
    EXPECT_THAT(refused("{\"files\":[" + patterns + "]}", Syntax::Json),
                StartsWith("/files: 257 patterns among"));
    EXPECT_THAT(refused("{\"files\":[{\"read\":\"/" + std::string(256, 'a') + "\"}]}", Syntax::Json),
                HasSubstr("a name of 256 bytes; at most 255"));
    std::string deep;
    for (int i = 0; i < 600; ++i) deep += "/abcdefg";
    EXPECT_THAT(refused("{\"files\":[{\"read\":\"" + deep + "\"}]}", Syntax::Json),
                StartsWith("/files/0/read: a path of 4800 bytes; at most 4096"));
    EXPECT_THAT(refused("{\"name\":\"" + std::string(129, 'a') + "\"}", Syntax::Json), StartsWith("/name: "));
    EXPECT_THAT(refused(std::string(2 << 20, ' '), Syntax::Json), HasSubstr("over the limit"));
    EXPECT_THAT(refused(std::string(2 << 20, ' '), Syntax::Toml), HasSubstr("over the limit"));
    EXPECT_THAT(refused(std::string(1000, '['), Syntax::Json), StartsWith("not JSON"));
    EXPECT_THAT(refused("a = " + std::string(100000, '['), Syntax::Toml), StartsWith("not TOML"));
}

TEST(Document, ADottedKeyCannotOverflowTheStack)
{
    std::string key = "a";
    for (int i = 0; i < 400000; ++i) key += ".a";
    for (const std::string& text :
         {key + " = 1", "[" + key + "]", "x = { " + key + " = 1 }", "x = 'q' # '\ny.'\"'." + key + " = 1",
          "x = [\"\\\"\", { " + key + " = 1 }]"}) {
        const auto policy = parse(text, Syntax::Toml);
        ASSERT_FALSE(policy) << text.substr(0, 40);
        EXPECT_THAT(policy.error().message, HasSubstr("a key of too many parts")) << text.substr(0, 40);
    }
}

TEST(Document, TomlStringsMeanTheSameInEitherQuotes)
{
    EXPECT_EQ(must_parse(R"(name = 'a "b" \ é 日本 😀 # =' # ü)", Syntax::Toml).name,
              R"(a "b" \ é 日本 😀 # =)");
    EXPECT_EQ(must_parse(R"(name = "a \"b\" \\ é \u65e5本 '#'")", Syntax::Toml).name,
              R"(a "b" \ é 日本 '#')");
    EXPECT_EQ(must_parse("limits.'pids' = 7\r\n\"name\"='x'\r\n", Syntax::Toml).limits.pids, 7u);
    EXPECT_FALSE(parse("name = \"\\é\"", Syntax::Toml)) << "an escape of nothing";
    EXPECT_FALSE(parse("name = \"a\\\"", Syntax::Toml)) << "the quote is escaped";
    EXPECT_FALSE(parse("name = \"\"'b'", Syntax::Toml));
    EXPECT_FALSE(parse("name = '\xff'", Syntax::Toml)) << "not UTF-8";
    EXPECT_FALSE(parse("name = '\xe0\x80\xaf'", Syntax::Toml)) << "not UTF-8";
}

TEST(Load, TakesPresetsAndFiles)
{
    EXPECT_EQ(*load("read-only"), *preset("read-only"));
    const std::string base = fmt::format("{}berth-policy-{}", testing::TempDir(), ::getpid());
    const ScopeExit remove([&] {
        for (const char* end : {".json", ".toml", "-bad.json"}) ::unlink((base + end).c_str());
    });
    std::ofstream(base + ".json") << R"({"network": "host"})";
    std::ofstream(base + ".toml") << "network = \"host\"\n";
    std::ofstream(base + "-bad.json") << R"({"network": 1})";
    EXPECT_EQ(load(base + ".json")->network, Network::Host);
    EXPECT_EQ(load(base + ".toml")->network, Network::Host);
    const auto bad = load(base + "-bad.json");
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().line(), testing::AllOf(StartsWith("/network: "), HasSubstr(base + "-bad.json")));
}

TEST(Load, NamesWhatIsMissing)
{
    const auto file = load("/nonexistent/policy.json");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, Code::NotFound);
    EXPECT_THAT(file.error().message, HasSubstr("/nonexistent/policy.json"));
    const auto name = load("read-onyl");
    ASSERT_FALSE(name);
    EXPECT_EQ(name.error().code, Code::NotFound);
    EXPECT_THAT(name.error().message, testing::AllOf(HasSubstr("'read-only'"), HasSubstr(".json or .toml")));
}

} // namespace
} // namespace berth::policy
