// The words of the program: help, suggestions, completion, version, policy, doctor, --json.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/documents.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;

const Words kVerbs{"run",    "create",     "start",    "stop",        "pause",   "resume",   "rm",
                   "ls",     "inspect",    "snapshot", "snapshots",   "restore", "fork",     "attach",
                   "detach", "volume",     "events",   "gc",          "exec",    "shell",    "logs",
                   "doctor", "policy",     "bench",    "conformance", "cp",      "port",     "serve",
                   "key",    "completion", "version",  "move",        "kill",    "template", "input"};

TEST(Help, NamesEveryVerbAndStartsWithAnExample)
{
    for (const Words& words : {Words{"--help"}, Words{"-h"}, Words{"help"}}) {
        const auto ended = berth(words);
        EXPECT_EQ(ended.code, 0);
        EXPECT_EQ(ended.err, "");
        EXPECT_THAT(ended.out, HasSubstr("berth run -- sh -c"));
        for (const auto& verb : kVerbs) EXPECT_THAT(ended.out, HasSubstr("\n  " + verb + " "));
        EXPECT_THAT(ended.out, HasSubstr("\nSandboxes:\n  run "));
        EXPECT_THAT(ended.out, HasSubstr("\nFor other programs:\n  serve "));
    }
}

TEST(Help, OfEveryVerbHasAnExample)
{
    for (const auto& verb : kVerbs) {
        const auto ended = berth({verb, "--help"});
        EXPECT_EQ(ended.code, 0) << verb;
        EXPECT_THAT(ended.out, HasSubstr("Example:\n  berth " + verb)) << verb;
        EXPECT_EQ(berth({"help", verb}).out, ended.out) << verb;
    }
}

TEST(Help, NamesEveryOptionOfTheDesign)
{
    const auto help = berth({"run", "--help"}).out;
    for (const char* option :
         {"--backend", "--template", "--workspace",  "--policy",    "--net",   "--memory",  "--cpus",
          "--pids",    "--disk",     "--open-files", "--env",       "--mount", "--workdir", "--user",
          "--name",    "--label",    "--timeout",    "--log-limit", "--json",  "--data"})
        EXPECT_THAT(help, HasSubstr(option));
}

TEST(Help, NamesTheServerWhereOneIsTaken)
{
    EXPECT_THAT(berth({"ls", "--help"}).out, HasSubstr("--server URL"));
    EXPECT_THAT(berth({"gc", "--help"}).out, testing::Not(HasSubstr("--server")));
}

TEST(Help, OfAnUnknownVerbIsUsage)
{
    const auto ended = berth({"help", "doctr"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.err, "berth: unknown verb 'doctr', did you mean doctor?\n");
}

TEST(Help, WithoutAnyWordIsUsage) { EXPECT_EQ(berth({}).code, 2); }

TEST(Suggestion, ForAnUnknownVerb)
{
    const auto ended = berth({"doctr"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.err, "berth: unknown verb 'doctr', did you mean doctor?\n");
    EXPECT_EQ(berth({"xyzzyxyzzy"}).err, "berth: unknown verb 'xyzzyxyzzy' (see berth --help)\n");
}

TEST(Suggestion, ForAnUnknownOption)
{
    const auto ended = berth({"run", "--memroy", "3", "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.err, "berth: unknown option --memroy, did you mean --memory? (see berth run --help)\n");
    EXPECT_EQ(berth({"run", "--zzzzzzz", "--", "true"}).err,
              "berth: unknown option --zzzzzzz (see berth run --help)\n");
    const auto version = berth({"version", "--jsno"});
    EXPECT_EQ(version.code, 2);
    EXPECT_THAT(version.err, HasSubstr("did you mean --json?"));
}

TEST(Suggestion, ForTheWordBehindAVerb)
{
    EXPECT_EQ(berth({"volume", "sl"}).err,
              "berth: berth volume has no 'sl', did you mean ls? (see berth volume --help)\n");
    EXPECT_EQ(berth({"key", "frobnicate"}).err,
              "berth: berth key has no 'frobnicate': it has add, ls, rm (see berth key --help)\n");
    EXPECT_EQ(berth({"key"}).err, "berth: berth key needs a word more: add, ls, rm (see berth key --help)\n");
    EXPECT_EQ(berth({"key"}).code, 2);
    EXPECT_EQ(berth({"key", "rm"}).err, "berth: id is required (see berth key rm --help)\n");
}

TEST(Suggestion, BlamesNoOptionThatIsRight)
{
    EXPECT_EQ(berth({"key", "add", "--tenant", "x", "--nte", "y"}).err,
              "berth: unknown option --nte, did you mean --note? (see berth key add --help)\n");
    EXPECT_EQ(berth({"ls", "more"}).err, "berth: unexpected argument 'more' (see berth ls --help)\n");
}

TEST(Suggestion, ForAnOptionOfAnotherWordNamesThatWord)
{
    EXPECT_EQ(berth({"volume", "ls", "--key", "vol"}).err,
              "berth: --key is an option of berth volume rm (see berth volume ls --help)\n");
    EXPECT_EQ(berth({"snapshots", "demo", "--dry-run"}).err,
              "berth: --dry-run is an option of berth snapshots rm (see berth snapshots --help)\n");
    EXPECT_EQ(berth({"template", "ls", "--force"}).err,
              "berth: --force is an option of berth template build (see berth template ls --help)\n");
    const auto there = berth({"ls", "--all", "--server", "http://127.0.0.1:1"});
    EXPECT_EQ(there.err, "berth: --all does not work with a server (see berth ls --help)\n");
}

TEST(Suggestion, ForTheWordsOfOtherPrograms)
{
    for (const auto& [word, meant] :
         {std::pair{"list", "ls"}, std::pair{"ps", "ls"}, std::pair{"delete", "rm"},
          std::pair{"remove", "rm"}, std::pair{"destroy", "rm"}, std::pair{"images", "template ls"},
          std::pair{"build", "template build"}}) {
        const auto ended = berth({word, "demo"});
        EXPECT_EQ(ended.code, 2);
        EXPECT_EQ(ended.err, fmt::format("berth: unknown verb '{}', did you mean {}?\n", word, meant));
    }
    EXPECT_THAT(berth({"volume", "list"}).err, HasSubstr("has no 'list', did you mean ls?"));
}

TEST(Suggestion, ForASandboxThatIsGivenAsAWord)
{
    const auto ended = berth({"create", "my box"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.err, "berth: unexpected argument 'my box': say --name 'my box' or --key 'my box' (see "
                         "berth create --help)\n");
}

TEST(Suggestion, ForAnOptionBeforeTheVerb)
{
    const auto ended = berth({"--json", "ls"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(ended.out,
                HasSubstr("unknown option --json: options of a verb come behind it, like berth ls --json"));
}

TEST(Suggestion, ForABackendThatIsNone)
{
    const auto ended = berth({"ls", "--backend", "dokcer"});
    EXPECT_EQ(ended.code, 6);
    EXPECT_EQ(ended.err, "berth: no backend 'dokcer': did you mean docker?\n");
}

TEST(Suggestion, ForAColorThatIsNone)
{
    EXPECT_EQ(berth({"ls", "--color", "pink"}).err, "berth: bad --color 'pink': auto, always or never\n");
}

TEST(Suggestion, IsNotMadeFromNothing)
{
    EXPECT_EQ(berth({"run", "-z", "--", "true"}).err, "berth: unknown option -z (see berth run --help)\n");
}

TEST(Completion, ScriptsParseInTheirShells)
{
    for (const char* name : {"bash", "zsh", "fish"}) {
        const auto script = berth({"completion", name});
        EXPECT_EQ(script.code, 0);
        for (const char* word : {"run", "--workspace", "policy", "explain"})
            EXPECT_THAT(script.out, HasSubstr(std::string(word).substr(
                                        std::string(name) == "fish" && word[0] == '-' ? 2 : 0)))
                << name;
        if (std::system((std::string("command -v ") + name + " >/dev/null").c_str()) != 0) {
            std::printf("SKIP %s is not here to parse its script: apt-get install %s\n", name, name);
            continue;
        }
        const auto file = Place::here().file(std::string("completion.") + name, script.out);
        EXPECT_EQ(std::system((std::string(name) + " -n '" + file + "'").c_str()), 0) << name;
    }
}

TEST(Completion, CompletesInBash)
{
    const auto file = Place::here().file("completion", berth({"completion", "bash"}).out);
    const auto ended = run(
        {.args = {"-c", "source '" + file +
                            "'; COMP_WORDS=(berth run --works); COMP_CWORD=2; _berth; echo ${COMPREPLY[*]}"},
         .program = "/bin/bash"});
    EXPECT_EQ(ended.out, "--workspace\n");
}

TEST(Completion, OfAnUnknownShellIsRefused) { EXPECT_EQ(berth({"completion", "tcsh"}).code, 2); }

TEST(Version, IsPrintedForPeopleAndPrograms)
{
    EXPECT_TRUE(berth({"version"}).out.starts_with("berth "));
    EXPECT_EQ(berth({"--version"}).out, berth({"version"}).out);
    const auto document = parsed(trimmed(berth({"version", "--json"}).out));
    EXPECT_FALSE(document.at("version").as_string().empty());
    EXPECT_FALSE(document.at("test_hooks").as_bool()) << "the program that ships must not have them";
    const auto twin = run({.args = {"version", "--json"}, .program = hooks_program()});
    EXPECT_TRUE(parsed(trimmed(twin.out)).at("test_hooks").as_bool());
}

TEST(Version, OfTheShippedProgramIgnoresTestSwitches)
{
    const auto ended =
        run({.args = {"run", "--", "sh", "-c", "exit 3"},
             .env = {{"BERTH_TEST_KILL", "limits made"}, {"BERTH_TEST_LACK", "user-namespaces"}}});
    EXPECT_EQ(ended.code, 3);
}

TEST(PolicyVerb, ShowsPresetsAsDocumentsThatAreValid)
{
    for (const char* name : {"sandbox", "read-only", "workspace-write", "full-access"}) {
        const auto shown = berth({"policy", "show", name, "--json"});
        EXPECT_EQ(shown.code, 0) << name << shown.err;
        EXPECT_TRUE(parsed(trimmed(shown.out)).is_object());
        EXPECT_EQ(berth({"policy", "check", Place::here().file("p.json", shown.out)}).out, "valid\n") << name;
        const auto toml = berth({"policy", "show", name, "--toml"});
        EXPECT_EQ(berth({"policy", "check", Place::here().file("p.toml", toml.out)}).out, "valid\n")
            << name << toml.out;
    }
}

TEST(PolicyVerb, CheckNamesThePlaceOfAMistake)
{
    const auto broken =
        berth({"policy", "check", Place::here().file("broken.json", R"({"limits":{"memory":"lots"}})")});
    EXPECT_EQ(broken.code, 2);
    EXPECT_THAT(broken.err, HasSubstr("limits"));
    EXPECT_THAT(broken.err, HasSubstr("memory"));
    const auto unknown =
        berth({"policy", "check", "--json", Place::here().file("unknown.json", R"({"netwrk":"off"})")});
    EXPECT_EQ(error_code(unknown), "invalid");
    EXPECT_THAT(unknown.out, HasSubstr("netwrk"));
    EXPECT_EQ(parsed(trimmed(berth({"policy", "check", "sandbox", "--json"}).out)).at("valid").as_bool(),
              true);
    EXPECT_EQ(berth({"policy", "check", "/no/such/file.json"}).code, 3);
}

TEST(PolicyVerb, ExplainsEachRule)
{
    const auto ended = berth({"policy", "explain", "workspace-write", "--json"});
    const auto document = parsed(trimmed(ended.out));
    EXPECT_GT(document.at("rules").as_array().size(), 3u);
    for (const auto& rule : document.at("rules").as_array()) {
        EXPECT_FALSE(rule.at("rule").as_string().empty());
        EXPECT_FALSE(rule.at("how").as_string().empty());
    }
    EXPECT_EQ(ended.code, document.at("admitted").as_bool() ? 0 : 6);
    EXPECT_THAT(berth({"policy", "explain", "workspace-write"}).out, HasSubstr("outside"));
}

TEST(PolicyVerb, ExplainSaysWhatIsRefused)
{
    const auto file =
        Place::here().file("open.json", R"({"network":"open","files":[{"write":"/"},{"deny":"**/.env"}]})");
    const auto ended = berth({"policy", "explain", file});
    EXPECT_EQ(ended.code, 6);
    EXPECT_THAT(ended.out, HasSubstr("REFUSED  network open"));
    EXPECT_THAT(ended.out, HasSubstr("outside  deny **/.env"));
    const auto grants = Place::here().file("grants.json", R"({"files":[{"write":"/"},{"read":"**/.env"}]})");
    EXPECT_THAT(berth({"policy", "explain", grants}).out, HasSubstr("REFUSED  read **/.env"));
    EXPECT_FALSE(parsed(trimmed(berth({"policy", "explain", file, "--json"}).out)).at("admitted").as_bool());
}

TEST(Doctor, TellsEachFindingWithItsRemedy)
{
    const auto ended = berth({"doctor", "--json"});
    EXPECT_EQ(ended.code, 0);
    const auto document = parsed(trimmed(ended.out));
    std::vector<std::string> names;
    for (const auto& finding : document.at("findings").as_array()) {
        names.emplace_back(finding.at("name").as_string());
        if (finding.at("verdict").as_string() != "ok") {
            EXPECT_FALSE(finding.at("remedy").as_string().empty()) << names.back();
        }
    }
    EXPECT_THAT(names, IsSupersetOf({"kernel", "user namespaces", "state directory", "ids", "landlock",
                                     "memory limit", "cpu limit", "process limit", "pause"}));
    EXPECT_EQ(names.back(), "sandbox");
    const auto text = berth({"doctor"});
    for (const auto& name : names) EXPECT_THAT(text.out, HasSubstr(name));
}

TEST(Doctor, LeavesNothingAndCleansNothingWhenThereIsNothing)
{
    const Traces before = traces();
    EXPECT_EQ(berth({"doctor"}).code, 0);
    expect_same(before);
    EXPECT_EQ(berth({"doctor", "--clean"}).code, 0);
    EXPECT_TRUE(parsed(trimmed(berth({"doctor", "--clean", "--json"}).out)).at("removed").is_array());
    expect_same(before);
}

TEST(Json, StreamsTheExecAsEventsInOrder)
{
    const auto ended = shell({"--json"}, "echo out; echo err >&2; exit 3");
    EXPECT_EQ(ended.code, 3);
    EXPECT_EQ(ended.err, "");
    const auto events = json_lines(ended.out);
    ASSERT_GE(events.size(), 5u);
    std::string out;
    std::string err;
    std::int64_t time = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
        EXPECT_EQ(events[i].at("seq").as_int64(), static_cast<std::int64_t>(i));
        EXPECT_GE(events[i].at("time_ns").as_int64(), time);
        time = events[i].at("time_ns").as_int64();
        if (events[i].at("event").as_string() == "stdout") out += events[i].at("data").as_string();
        if (events[i].at("event").as_string() == "stderr") err += events[i].at("data").as_string();
    }
    EXPECT_EQ(out, "b3V0Cg==");
    EXPECT_EQ(err, "ZXJyCg==");
    EXPECT_EQ(events.front().at("event").as_string(), "start");
    EXPECT_EQ(events[events.size() - 2].at("event").as_string(), "exit");
    EXPECT_EQ(events[events.size() - 2].at("code").as_int64(), 3);
    EXPECT_EQ(events.back().at("event").as_string(), "closed");
}

TEST(Json, TellsASignalAsASignal)
{
    const auto events = json_lines(shell({"--json"}, "kill -9 $$").out);
    ASSERT_GE(events.size(), 3u);
    EXPECT_EQ(events[events.size() - 2].at("signal").as_int64(), 9);
    EXPECT_FALSE(events[events.size() - 2].as_object().contains("code"));
}

TEST(Json, TellsATimeoutAsTheSignalItIs)
{
    const auto events = json_lines(berth({"run", "--json", "--timeout", "300ms", "--", "sleep", "60"}).out);
    ASSERT_GE(events.size(), 4u);
    EXPECT_EQ(events[events.size() - 3].at("event").as_string(), "exit");
    EXPECT_EQ(events[events.size() - 3].at("signal").as_int64(), 9);
    EXPECT_EQ(events[events.size() - 3].at("status").as_string(), "timed out, signal 9");
    EXPECT_TRUE(events[events.size() - 3].at("timed_out").as_bool());
    EXPECT_EQ(events.back().at("error").at("code").as_string(), "deadline_exceeded");
}

TEST(Json, ErrorsHaveTheirCode)
{
    EXPECT_EQ(error_code(berth({"run", "--json", "--nope", "--", "true"})), "invalid");
    EXPECT_EQ(error_code(berth({"run", "--json"})), "invalid");
    EXPECT_EQ(error_code(berth({"run", "--json", "--template", "nope", "--", "true"})), "not_found");
    EXPECT_EQ(error_code(berth({"run", "--json", "--mount", "/no/such:/x", "--", "true"})), "not_found");
    EXPECT_EQ(error_code(berth({"run", "--json", "--net", "open", "--", "true"})), "unsupported");
    EXPECT_EQ(error_code(berth({"run", "--json", "--backend", "moon", "--", "true"})), "unsupported");
    EXPECT_EQ(berth({"run", "--json", "--nope", "--", "true"}).err, "");
}

TEST(Json, TimeoutIsAnErrorAfterTheEvents)
{
    const auto ended = shell({"--json", "--timeout", "2s"}, "echo before; sleep 60");
    EXPECT_EQ(ended.code, 124);
    const auto lines = json_lines(ended.out);
    ASSERT_GE(lines.size(), 3u);
    EXPECT_EQ(lines.back().at("error").at("code").as_string(), "deadline_exceeded");
    EXPECT_NE(lines[lines.size() - 3].at("event").as_string(), "start");
}

TEST(Json, CommandThatIsNotThereIsAnError)
{
    const auto ended = berth({"run", "--json", "--", "no-such-command"});
    EXPECT_EQ(ended.code, 127);
    EXPECT_EQ(json_lines(ended.out).back().at("error").at("code").as_string(), "not_found");
}

} // namespace
} // namespace berth::test
