// What is wrong with a request is said in one line, before anything is made.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

/// Refused by `berth run` with 125 and one line that holds every word; nothing is left.
void expect_refused(const Words& options, const std::vector<std::string>& words, Words command = {"true"})
{
    const Traces before = traces();
    Words args{"run"};
    args.insert(args.end(), options.begin(), options.end());
    args.push_back("--");
    args.insert(args.end(), command.begin(), command.end());
    const auto ended = berth(args);
    std::string asked;
    for (const auto& word : options) asked += word.substr(0, 100) + " ";
    SCOPED_TRACE(asked);
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.out, "");
    EXPECT_TRUE(ended.err.starts_with("berth: ")) << ended.err;
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    EXPECT_LT(ended.err.size(), 1000u);
    for (const auto& word : words) EXPECT_THAT(ended.err, HasSubstr(word));
    expect_same(before);
}

TEST(BadInput, MissingCommand)
{
    for (const Words& args :
         {Words{"run"}, Words{"run", "--"}, Words{"run", "--memory", "1G"}, Words{"run", "--", ""}}) {
        const auto ended = berth(args);
        EXPECT_EQ(ended.code, 125);
        EXPECT_THAT(ended.err, HasSubstr("no command given"));
    }
}

TEST(BadInput, UnknownOption)
{
    expect_refused({"--worskpace", "."}, {"--worskpace", "did you mean --workspace?"});
}
TEST(BadInput, OptionWithoutItsValue)
{
    const auto ended = berth({"run", "--memory"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("--memory"));
}

/// What a variable that is not set asks for is not "no limit", "no policy" or "no time".
TEST(BadInput, AnEmptyValueIsNoValue)
{
    for (const char* option :
         {"--timeout", "--memory", "--cpus", "--pids", "--disk", "--open-files", "--log-limit", "--policy",
          "--net", "--workspace", "--workdir", "--user", "--name", "--url", "--data", "--log-level"}) {
        expect_refused({option, ""}, {std::string(option) + " is empty", "berth run --help"});
        expect_refused({std::string(option) + "="}, {std::string(option) + " is empty"});
    }
    EXPECT_EQ(berth({"run", "--", "sh", "-c", "test -z \"$1\"", "sh", ""}).code, 0)
        << "the command's own are";
    const auto swallowed = berth({"create", "--key=", "--json"});
    EXPECT_EQ(swallowed.code, 2);
    EXPECT_THAT(swallowed.out, HasSubstr("--key is empty")) << "what follows is not its value";
    for (const Words& words : {Words{"policy", "check", ""}, Words{"policy", "show", ""}}) {
        const auto ended = berth(words);
        EXPECT_EQ(ended.code, 2);
        EXPECT_EQ(ended.err, "berth: which policy? A preset's name, or a file\n");
    }
    EXPECT_THAT(berth({"key", "add", "--tenant", ""}).err, HasSubstr("--tenant is empty"));
}

TEST(BadInput, Size)
{
    for (const char* bad :
         {"x", "-5", "1XB", "", "1.2.3G", "0", "1e3", "99999999999999999999T", " 1G", "1G "})
        expect_refused({std::string("--memory=") + bad}, {});
    expect_refused({"--memory", "lots"}, {"bad size 'lots'", "512MiB"});
    expect_refused({"--disk", "-1G"}, {"bad size '-1G'"});
    expect_refused({"--memory", "4KiB"}, {"memory limit 4KiB is too small"});
    expect_refused({"--disk", "1KiB"}, {"disk limit 1KiB is too small"});
}

TEST(BadInput, Duration)
{
    expect_refused({"--timeout", "soon"}, {"bad duration 'soon'", "30s"});
    expect_refused({"--timeout=-1s"}, {"bad duration '-1s'"});
    expect_refused({"--timeout", "0"}, {"--timeout must be longer than zero"});
    expect_refused({"--timeout", "99999999999999999999h"}, {"too large"});
}

TEST(BadInput, Counts)
{
    expect_refused({"--pids", "many"}, {"bad process limit 'many'"});
    expect_refused({"--pids=-3"}, {"bad process limit '-3'"});
    expect_refused({"--pids", "1"}, {"bad process limit '1'"});
    expect_refused({"--cpus", "zero"}, {"bad number of cpus 'zero'"});
    expect_refused({"--cpus=-1"}, {"bad number of cpus '-1'"});
    expect_refused({"--cpus", "nan"}, {"bad number of cpus 'nan'"});
    expect_refused({"--open-files", "0"}, {"bad open files limit '0'"});
    expect_refused({"--limits", "maybe"}, {"bad --limits 'maybe'"});
}

TEST(BadInput, Names)
{
    expect_refused({"--backend", "moon"}, {"no backend 'moon'"});
    expect_refused({"--name", "no spaces please"}, {"bad name"});
    expect_refused({"--name", std::string(200, 'a')}, {"bad name"});
    expect_refused({"--user", "no/body"}, {"bad user"});
    expect_refused({"--env", "=value"}, {"bad environment variable"});
    expect_refused({"--env", "NOT_SET_ANYWHERE"}, {"NOT_SET_ANYWHERE is not set here"});
    expect_refused({"--workdir", "relative"}, {"'relative' is not absolute"});
    expect_refused({"--workdir", "/a/../b"}, {"/a/../b"});
    expect_refused({"--log-level", "loud"}, {"loud"});
}

TEST(BadInput, TemplateThatIsNotThere)
{
    expect_refused({"--template", "nope"}, {"no template 'nope'"});
    expect_refused({"--template", "/nope/nope"}, {"/nope/nope"});
    expect_refused({"--template", ""}, {"--template is empty"});
}

TEST(BadInput, MountThatCannotBe)
{
    const auto dir = Place::here().dir("source");
    expect_refused({"--mount", "/nope:/x"}, {"mount source /nope: No such file"});
    expect_refused({"--mount", dir + ":/"}, {"cannot mount", "over /"});
    expect_refused({"--mount", dir + ":/x/.."}, {});
    expect_refused({"--mount", dir + ":/proc"}, {"cannot mount over /proc"});
    expect_refused({"--mount", dir + ":/proc/self"}, {"cannot mount over /proc/self"});
    expect_refused({"--mount", dir + ":/sys/fs"}, {"cannot mount over /sys/fs"});
    expect_refused({"--mount", dir + ":/dev/shm"}, {"cannot mount over /dev/shm"});
    expect_refused({"--mount", dir + ":relative"}, {"absolute"});
    expect_refused({"--mount", dir}, {"bad mount"});
    expect_refused({"--mount", ":/x"}, {"bad mount"});
    expect_refused({"--mount", dir + ":"}, {"bad mount"});
    expect_refused({"--mount", dir + ":/x:rx"}, {"bad mount"});
    expect_refused({"--mount", dir + ":/a", "--mount", dir + ":/a:rw"}, {"two mounts on /a"});
    expect_refused({"--mount", "/:/host"}, {"cannot mount the host's /"});
    expect_refused({"--workspace", "/nope"}, {"mount source /nope"});
    expect_refused({"--workspace", "/"}, {"/"});
}

TEST(BadInput, MountSourceOfAnotherKind)
{
    const auto dir = Place::here().dir("kinds");
    const auto top = Place::here().dir("elsewhere");
    std::filesystem::create_symlink("/etc", dir + "/link");
    ASSERT_EQ(::mkfifo((dir + "/fifo").c_str(), 0666), 0);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = dir + "/socket";
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(&address.sun_path[0], sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    expect_refused({"--mount", dir + "/link:/x"}, {"is a symbolic link"});
    expect_refused({"--workspace", dir + "/link"}, {"is a symbolic link"});
    expect_refused({"--mount", dir + "/fifo:/x"}, {"neither a directory nor a file"});
    expect_refused({"--mount", dir + "/socket:/x"}, {"neither a directory nor a file"});
    expect_refused({"--mount", "/dev/null:/x"}, {"neither a directory nor a file"});
    expect_refused({"--workspace", Place::here().file("one", "x")}, {"is not a directory"});
}

TEST(BadInput, OfAServer)
{
    for (const char* domain :
         {"a b", "Caps.org", "-x.org", "x..org", "x.org:", "x.org:0", "x.org:70000", "$(id).org"}) {
        const auto ended = berth({"serve", "--listen", "127.0.0.1:0", "--domain", domain});
        EXPECT_NE(ended.code, 0) << domain;
        EXPECT_THAT(ended.err, HasSubstr("--domain")) << domain;
    }
    const auto nowhere = berth({"serve", "--listen", "127.0.0.1:0", "--backend", "nosuch"});
    EXPECT_NE(nowhere.code, 0);
    EXPECT_THAT(nowhere.err, HasSubstr("nosuch"));
    for (const char* rate : {"-1", "inf", "nan"}) {
        const auto ended = berth({"serve", "--listen", "127.0.0.1:0", "--rate", rate});
        EXPECT_EQ(ended.code, 2);
        EXPECT_EQ(ended.err,
                  "berth: --rate: it must be a number, and not negative (see berth serve --help)\n");
    }
    const auto open = berth({"serve", "--listen", "127.0.0.1:0", "--net-ceiling", "open"});
    EXPECT_EQ(open.code, 6);
    EXPECT_THAT(open.err, HasSubstr("--net-ceiling 'open' is not supported"));
    const auto none = berth({"serve", "--listen", "127.0.0.1:0", "--connections", "0"});
    EXPECT_EQ(none.err, "berth: --connections: it must be a number above zero (see berth serve --help)\n");
}

TEST(BadInput, TargetThroughALinkOfTheTemplate)
{
    // /bin is a link in template host: what is mounted there must not end up elsewhere unsaid.
    const auto dir = Place::here().dir("source");
    const auto ended = shell({"--mount", dir + ":/bin/deep"}, "exit 0");
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("/bin/deep"));
}

TEST(BadInput, EnvironmentOverTheKernelsLimit)
{
    expect_refused({"--env", "BIG"}, {"BIG is not set here"});
    const auto one =
        run({.args = {"run", "--env", "BIG", "--", "true"}, .env = {{"BIG", std::string(131'000, 'x')}}});
    EXPECT_EQ(one.code, 0) << "just below the limit of one variable";
    Words many{"run"};
    std::map<std::string, std::string> env;
    for (int i = 0; i < 12; ++i) {
        const std::string name = "BIG" + std::to_string(i);
        many.insert(many.end(), {"--env", name});
        env[name] = std::string(100'000, 'x');
    }
    many.insert(many.end(), {"--", "true"});
    const auto ended = run({.args = many, .env = env});
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("the environment is"));
}

TEST(BadInput, ArgumentListOfTenMegabytesIsTheKernelsRefusal)
{
    // execve of berth itself fails with E2BIG before one line of it runs; 207 is the test's word for that.
    Words args{"run", "--", "true"};
    for (int i = 0; i < 100; ++i) args.push_back(std::string(100'000, 'a'));
    EXPECT_EQ(run({.args = args}).code, 207);
}

TEST(BadInput, LargeArgumentListArrives)
{
    Words args{"run", "--", "sh", "-c", "echo $#", "sh"};
    for (int i = 0; i < 1000; ++i) args.push_back(std::string(1000, 'a'));
    const auto ended = berth(args);
    EXPECT_EQ(ended.out, "1000\n") << ended.err;
}

TEST(BadInput, ArgumentsArriveByteForByte)
{
    std::string bytes;
    for (int byte = 1; byte < 256; ++byte) bytes += static_cast<char>(byte);
    const auto ended =
        berth({"run", "--", "printf", "%s|", "", " ", "-x", "--", "\n", "'", "\"", "\\", "$HOME", bytes});
    EXPECT_EQ(ended.out, "| |-x|--|\n|'|\"|\\|$HOME|" + bytes + "|");
}

TEST(BadInput, PolicyThatCannotBeHeld)
{
    const auto place = [](const char* text) { return Place::here().file("policy.json", text); };
    expect_refused({"--policy", place(R"({"network":{"allow":[{"host":"example.org"}]}})")},
                   {"cannot be held here", "network allow"});
    expect_refused({"--policy", place(R"({"network":"open"})")}, {"cannot be held here", "network open"});
    expect_refused({"--policy", place(R"({"files":[{"write":"/"},{"read":"**/.env"}]})")},
                   {"cannot be held here", ".env", "only what is denied"});
    expect_refused(
        {"--policy", place(R"({"files":[{"write":"/"},{"deny":"**/.env"}],"nested_namespaces":true})")},
        {"cannot be held here", ".env", "nested namespaces"});
    expect_refused({"--policy", place(R"({"devices":["/dev/kvm"]})")}, {"cannot be held here", "/dev/kvm"});
}

TEST(BadInput, PolicyThatIsBroken)
{
    const auto place = [](const char* name, const char* text) { return Place::here().file(name, text); };
    expect_refused({"--policy", "no-such-preset"}, {"no-such-preset"});
    expect_refused({"--policy", "/nope.json"}, {"/nope.json"});
    expect_refused({"--policy", place("p.json", "{\"files\": [")}, {"p.json"});
    expect_refused({"--policy", place("p.json", R"({"limits":{"pids":true}})")}, {"limits", "pids"});
    expect_refused({"--policy", place("p.json", R"({"fils":[]})")}, {"fils"});
    expect_refused({"--policy", place("p.toml", "[limits]\npids = \n")}, {"p.toml"});
    expect_refused({"--policy", place("p.json", "{\"name\":\"a\\u0000b\"}")}, {});
    expect_refused({"--policy", place("p.json", R"({"files":[{"deny":"/a\u0000b"}]})")}, {});
}

TEST(BadInput, NothingOfAHostileNameReachesTheTerminal)
{
    for (const char* name : {"/no\x1b[2Jpe", "/new\nline", "/bell\x07"}) {
        for (const Words& options : {Words{"--mount", std::string(name) + ":/x"}, Words{"--template", name},
                                     Words{"--policy", name}, Words{"--workdir", name},
                                     Words{"--memory", name}, Words{"--user", name}, Words{"--name", name}}) {
            Words args{"run"};
            args.insert(args.end(), options.begin(), options.end());
            args.insert(args.end(), {"--", "true"});
            const auto ended = berth(args);
            EXPECT_EQ(ended.code, 125);
            EXPECT_EQ(ended.err.find('\x1b'), std::string::npos) << options[0];
            EXPECT_EQ(ended.err.find('\x07'), std::string::npos) << options[0];
            EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << options[0] << ": " << ended.err;
        }
    }
}

} // namespace
} // namespace berth::test
