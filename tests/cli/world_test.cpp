// What the command finds inside: environment, user, working directory, host name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

std::vector<std::string> lines(const std::string& text)
{
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(line);
    return out;
}

TEST(Environment, HoldsTheDocumentedNamesOnly)
{
    const auto ended =
        run({.args = {"run", "--", "env"}, .env = {{"SECRET_TOKEN", "do-not-leak"}, {"LC_ALL", "xx"}}});
    std::vector<std::string> names;
    for (const auto& line : lines(ended.out)) names.push_back(line.substr(0, line.find('=')));
    EXPECT_THAT(names,
                UnorderedElementsAre("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "BERTH_SANDBOX"));
    EXPECT_THAT(ended.out, HasSubstr("HOME=/home/user\n"));
    EXPECT_THAT(ended.out, HasSubstr("USER=user\n"));
    EXPECT_THAT(ended.out, HasSubstr("BERTH_SANDBOX=sbx_"));
}

TEST(Environment, TakesAValueOrPassesANameOn)
{
    const auto ended = run({.args = {"run", "-e", "ONE=1 = one", "--env", "PASSED", "--env=EMPTY=", "--",
                                     "sh", "-c", "echo \"$ONE|$PASSED|${EMPTY-unset}|${OTHER-unset}\""},
                            .env = {{"PASSED", "from the caller"}, {"OTHER", "not asked"}}});
    EXPECT_EQ(ended.out, "1 = one|from the caller||unset\n");
}

TEST(Environment, OverridesTheDefaults)
{
    EXPECT_EQ(shell({"-e", "HOME=/tmp", "-e", "LANG=C"}, "echo $HOME $LANG").out, "/tmp C\n");
}

TEST(Environment, CarriesAValueWithEveryByteButNul)
{
    std::string value;
    for (int byte = 1; byte < 256; ++byte) value += static_cast<char>(byte);
    const auto ended = berth({"run", "-e", "V=" + value, "--", "sh", "-c", "printf %s \"$V\""});
    EXPECT_EQ(ended.out, value);
}

TEST(User, IsUserUnlessAsked)
{
    EXPECT_EQ(shell({}, "id -u; id -g; whoami; echo $HOME; pwd").out,
              "1000\n1000\nuser\n/home/user\n/home/user\n");
}

TEST(User, MayWriteHomeTmpUsrLocalAndTheHostIsUnchanged)
{
    const std::string name = "berth-made-" + Place::here().mark();
    const auto ended =
        shell({}, "touch ~/" + name + " /tmp/" + name + " /usr/local/bin/" + name + " && echo done");
    if (is_root()) {
        // /usr/local is root's; the unprivileged user of a root-mode sandbox has home and /tmp.
        EXPECT_EQ(shell({}, "touch ~/x /tmp/x && echo done").out, "done\n");
        EXPECT_EQ(
            shell({"-u", "root"}, "touch /usr/local/bin/" + name + " /etc/" + name + " && echo done").out,
            "done\n");
    } else {
        EXPECT_EQ(ended.out, "done\n") << ended.err;
        EXPECT_EQ(shell({}, "touch /etc/" + name + " && echo done").out, "done\n");
    }
    for (const char* dir : {"/home/user/", "/tmp/", "/usr/local/bin/", "/etc/"})
        EXPECT_NE(::access((dir + name).c_str(), F_OK), 0) << dir;
}

TEST(User, CanBeRootByNameAndByNumberInRootMode)
{
    if (!is_root()) {
        const auto ended = berth({"run", "-u", "root", "--", "id"});
        EXPECT_EQ(ended.code, 125);
        EXPECT_EQ(ended.err,
                  "berth: user root cannot be had: an ordinary user's sandbox has the one user 1000; "
                  "run berth as root for more\n");
        EXPECT_EQ(berth({"run", "--user", "1234", "--", "id"}).code, 125);
        return;
    }
    EXPECT_EQ(shell({"-u", "root"}, "id -u; echo $HOME $USER").out, "0\n/root root\n");
    EXPECT_EQ(shell({"--user", "0"}, "id -u; id -un").out, "0\nroot\n");
    EXPECT_EQ(shell({"--user", "1234"}, "id -u; id -g").out, "1234\n1234\n");
    EXPECT_EQ(shell({"--user", "1234:5678"}, "id -u; id -g; id -G").out, "1234\n5678\n5678\n");
    EXPECT_EQ(shell({"--user", "1000"}, "whoami").out, "user\n");
}

TEST(User, UnknownIsRefusedByName)
{
    const auto ended = berth({"run", "--user", "nobody-here", "--", "id"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.err, "berth: no user 'nobody-here' in the template's /etc/passwd\n");
    for (const char* bad : {"70000", "-1", "1000:99999", "a/b", ""}) {
        if (std::string(bad).empty()) continue;
        EXPECT_EQ(berth({"run", std::string("--user=") + bad, "--", "id"}).code, 125) << bad;
    }
}

TEST(Workdir, IsWhereTheCommandStarts)
{
    EXPECT_EQ(shell({"--workdir", "/usr/bin"}, "pwd").out, "/usr/bin\n");
    EXPECT_EQ(shell({"-w", "/tmp"}, "pwd").out, "/tmp\n");
}

TEST(Workdir, ThatIsNotThereIsNamed)
{
    const auto ended = berth({"run", "--workdir", "/not/there", "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.err, "berth: working directory /not/there of user user: No such file or directory\n");
}

TEST(Workdir, ThatTheUserMayNotEnterIsNamed)
{
    BERTH_NEEDS_ROOT();
    const auto ended = berth({"run", "--workdir", "/root", "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.err, "berth: working directory /root of user user: Permission denied\n");
}

TEST(Umask, IsItsOwnWhateverOursIs)
{
    const std::string look = "umask; pwd; touch file && stat -c %a file / /etc /home/user";
    const std::string expected = "0022\n/home/user\n644\n755\n755\n755\n";
    for (const mode_t ours : {0022, 0077, 0000}) {
        const auto ended =
            run({.args = {"run", "--", "sh", "-c", look}, .in_child = [ours] { ::umask(ours); }});
        EXPECT_EQ(ended.out, expected) << ended.err;
        const auto made = run({.args = {"create", "-q"}, .in_child = [ours] { ::umask(ours); }});
        const auto box = trimmed(made.out);
        EXPECT_EQ(berth({"exec", box, "--", "sh", "-c", look}).out, expected) << made.err;
        EXPECT_EQ(berth({"rm", box}).code, 0);
    }
}

TEST(Hostname, IsTheNameOfTheSandbox)
{
    EXPECT_EQ(shell({}, "cat /proc/sys/kernel/hostname").out, "sandbox\n");
    EXPECT_EQ(shell({"--name", "my-box"}, "cat /proc/sys/kernel/hostname").out, "my-box\n");
}

TEST(Hostname, IsFoundInTheFilesThatTellIt)
{
    const std::string look =
        "cat /etc/hostname; head -1 /etc/hosts; stat -c %a /etc/hosts /etc; getent hosts $(uname -n)";
    const auto usual = shell({}, look);
    EXPECT_THAT(usual.out, StartsWith("sandbox\n127.0.0.1\tlocalhost sandbox\n644\n755\n127.0.0.1"));
    const auto named =
        run({.args = {"run", "--name", "my-box", "--", "sh", "-c", look}, .in_child = [] { ::umask(0077); }});
    EXPECT_THAT(named.out, StartsWith("my-box\n127.0.0.1\tlocalhost my-box\n644\n755\n127.0.0.1"))
        << named.err;
}

TEST(Label, IsTakenAndMustBeAPair)
{
    EXPECT_EQ(berth({"run", "--label", "team=a", "--label", "b=", "--", "true"}).code, 0);
    const auto ended = berth({"run", "--label", "nothing", "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.err, "berth: bad label 'nothing': write it like NAME=value\n");
}

TEST(Sandbox, KeepsNothingForTheNextOne)
{
    EXPECT_EQ(shell({}, "echo mine > ~/file; cat ~/file").out, "mine\n");
    EXPECT_EQ(shell({}, "cat ~/file").code, 1);
}

TEST(Sandbox, SeesItsOwnProcessesOnly)
{
    const auto ended = shell({}, "ls /proc | grep -c '^[0-9][0-9]*$'");
    EXPECT_LE(std::stoi(ended.out), 6);
}

} // namespace
} // namespace berth::test
