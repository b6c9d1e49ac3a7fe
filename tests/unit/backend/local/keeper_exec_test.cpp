#include <sys/resource.h>
#include <sys/stat.h>

#include "keeper/wire_program.hpp"
#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

using keeper::Step;

TEST(KeeperExec, TellsWhatTheCommandPrintedAndHowItEnded)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const Ran ran = keeper.run(client, keeper.shell(1, "echo out; echo err >&2; exit 7"));
    EXPECT_EQ(ran.out, "out\n");
    EXPECT_EQ(ran.err, "err\n");
    EXPECT_EQ(ran.status.code(), 7);
}

TEST(KeeperExec, TellsASignalFromAnExitCode)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const Ran killed = keeper.run(client, keeper.shell(1, "kill -9 $$"));
    const Ran exited = keeper.run(client, keeper.shell(2, "exit 137"));
    EXPECT_EQ(killed.status.signal(), 9);
    EXPECT_EQ(exited.status.code(), 137);
}

TEST(KeeperExec, StartsInItsDirectoryWithItsEnvironmentAndNothingElse)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.command(
        1, {"/bin/sh", "-c",
            "pwd; env; for i in 0 1 2 3 4 5 6 7 8 9; do test -e /proc/$$/fd/$i && echo $i; done"});
    what.cwd = "/usr";
    what.env = {"PATH=/usr/bin:/bin", "WORD=a b"};
    const Ran ran = keeper.run(client, what);
    EXPECT_NE(ran.out.find("/usr\n"), std::string::npos);
    EXPECT_NE(ran.out.find("WORD=a b\n"), std::string::npos);
    EXPECT_EQ(ran.out.find("HOME="), std::string::npos);
    EXPECT_TRUE(ran.out.ends_with("0\n1\n2\n")) << ran.out;
}

TEST(KeeperExec, LeadsASessionWithDefaultSignalsAndInputFromNull)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const Ran ran =
        keeper.run(client, keeper.shell(1, "set -- $(cat /proc/$$/stat); echo $(($1 == $5)) $(($1 == $6)); "
                                           "grep -E 'Sig(Blk|Ign)' /proc/$$/status | tr -d '\\n'; "
                                           "readlink /proc/$$/fd/0"));
    EXPECT_EQ(ran.out, "1 1\nSigBlk:\t0000000000000000SigIgn:\t0000000000000000/dev/null\n");
}

TEST(KeeperExec, RunsAProgramThatComesAlongAndLeavesNoDescriptorBehind)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const UniqueFd program(::open("/bin/sh", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(program);
    const std::string script = "echo $0; for i in 3 4 5 6 7 8 9; do test -e /proc/$$/fd/$i && echo $i; done";
    // With a body that itself comes as a descriptor, and without.
    for (const std::size_t padding : {std::size_t{0}, keeper::kMaxInlineBody}) {
        KeeperExec what = keeper.command(padding + 1, {"no-such-name", "-c", script});
        if (padding > 0) what.env.push_back("PADDING=" + std::string(padding, 'x'));
        what.flags |= keeper::kProgram;
        what.groups = {program.get()};
        EXPECT_EQ(keeper.run(client, what).out, "no-such-name\n");
    }
    EXPECT_EQ(keeper.run(client, keeper.shell(3, "echo after")).out, "after\n");
}

struct BadCommand {
    const char* name;
    std::vector<std::string> argv;
    std::string cwd;
    Step step;
    int error;
    int code;
};

class KeeperRefuses : public testing::TestWithParam<BadCommand> {};

TEST_P(KeeperRefuses, NamingStepAndReason)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    // No set-up of the test may be executable by chance: a text file without a program in it.
    const std::string text = keeper.dir.path() + "/text";
    UniqueFd file(::open(text.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
    ASSERT_EQ(::write(file.get(), "not a program", 13), 13);
    file.reset();
    KeeperExec what = keeper.command(1, GetParam().argv);
    if (what.argv[0] == "TEXT") what.argv[0] = text;
    what.cwd = GetParam().cwd;
    const ExecLog log = keeper.make_log(what);
    const Launched launched = must(client.exec(what, log));
    EXPECT_EQ(launched.step, GetParam().step);
    EXPECT_EQ(launched.error, GetParam().error);
    EXPECT_EQ(launched.exit_code(), GetParam().code);
    EXPECT_TRUE(must(log.records(0, 8)).empty()) << "a command that never ran has no start record";
    EXPECT_TRUE(must(client.list()).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Keeper, KeeperRefuses,
    testing::Values(BadCommand{"missing", {"no-such-program"}, "/", Step::Command, ENOENT, 127},
                    BadCommand{"missing_path", {"/no/such/program"}, "/", Step::Command, ENOENT, 127},
                    BadCommand{"directory", {"/usr"}, "/", Step::Command, EACCES, 126},
                    BadCommand{"not_executable", {"/etc/passwd"}, "/", Step::Command, EACCES, 126},
                    BadCommand{"no_program", {"TEXT"}, "/", Step::Command, ENOEXEC, 126},
                    BadCommand{"empty_word", {""}, "/", Step::Command, ENOENT, 127},
                    BadCommand{"no_directory", {"true"}, "/no/such", Step::Directory, ENOENT, 125}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(KeeperExec, RemembersThatAFileInThePathMayNotBeExecuted)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    UniqueFd(::open((keeper.dir.path() + "/tool").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    KeeperExec what = keeper.command(1, {"tool"});
    what.env = {"PATH=/no/such:" + keeper.dir.path() + ":/usr/bin"};
    const Launched launched = must(client.exec(what, keeper.make_log(what)));
    EXPECT_EQ(launched.error, EACCES);
    EXPECT_EQ(launched.exit_code(), 126);
}

TEST(KeeperExec, TakesLongArgumentListsByMemoryFile)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.command(1, {"sh", "-c", "echo $#; printf %s \"$@\" | wc -c", "sh"});
    for (int i = 0; i < 1500; ++i) what.argv.push_back(std::string(1000, static_cast<char>('a' + i % 26)));
    const Ran ran = keeper.run(client, what);
    EXPECT_EQ(ran.out, "1500\n1500000\n");
}

TEST(KeeperExec, RefusesAnArgumentListNoKernelTakes)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const KeeperExec what = keeper.command(1, {"true", std::string(10 << 20, 'x')});
    const auto launched = client.exec(what, keeper.make_log(what));
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().code, Code::Invalid);
    const KeeperExec one_word = keeper.command(2, {"true", std::string(200'000, 'x')});
    EXPECT_EQ(must(client.exec(one_word, keeper.make_log(one_word))).error, E2BIG);
}

TEST(KeeperExec, SetsTheLimitsOfTheRequestAndGivesBackItsOwn)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec limited = keeper.shell(1, "ulimit -n; ulimit -f; ulimit -t");
    limited.open_files = 77;
    limited.file_size = 512 * 1024;
    limited.cpu_seconds = 100;
    EXPECT_EQ(keeper.run(client, limited).out, "77\n1024\n100\n");
    rlimit own{};
    ::getrlimit(RLIMIT_NOFILE, &own);
    EXPECT_EQ(keeper.run(client, keeper.shell(2, "ulimit -n")).out, std::to_string(own.rlim_cur) + "\n");
}

TEST(KeeperExec, BecomesTheUserAndGivesItItsPipes)
{
    if (::getuid() != 0) GTEST_SKIP() << "needs root: sudo ctest -R BecomesTheUser";
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what =
        keeper.shell(1, "id -u; id -g; id -G; echo again >/dev/stdout; grep CapEff /proc/$$/status");
    what.uid = 1234;
    what.gid = 2345;
    EXPECT_EQ(keeper.run(client, what).out, "1234\n2345\n2345\nagain\nCapEff:\t0000000000000000\n");
}

TEST(KeeperExec, RefusesAnotherUserWithoutThePrivilege)
{
    if (::getuid() == 0)
        GTEST_SKIP() << "needs an ordinary user: tools/dev/as-user ctest -R RefusesAnotherUser";
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.command(1, {"true"});
    what.uid = ::getuid() + 1;
    const Launched launched = must(client.exec(what, keeper.make_log(what)));
    EXPECT_EQ(launched.step, Step::Identity);
    EXPECT_EQ(launched.error, EPERM);
}

TEST(KeeperExec, CannotBeLookedIntoByItsCommands)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const std::string proc = "/proc/" + std::to_string(keeper.child().pid());
    KeeperExec what = keeper.shell(1, "cat " + proc + "/environ " + proc + "/maps; ls " + proc + "/fd");
    if (::getuid() == 0) what.uid = what.gid = 1234;
    const Ran ran = keeper.run(client, what);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("Permission denied"), std::string::npos);
}

TEST(KeeperExec, IsBornInTheV2GroupAndMayStartLateWhenItIsFrozen)
{
    const char* mounts[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    std::string group;
    for (const char* mount : mounts)
        if (::access((std::string(mount) + "/cgroup.procs").c_str(), F_OK) == 0) group = mount;
    group += "/berth-keeper-test-" + std::to_string(::getpid());
    if (::getuid() != 0 || ::mkdir(group.c_str(), 0755) != 0)
        GTEST_SKIP() << "needs root and a writable cgroup v2 mount: sudo ctest -R IsBornInTheV2Group";
    const auto set_frozen = [&](const char* value) {
        const UniqueFd file(::open((group + "/cgroup.freeze").c_str(), O_WRONLY | O_CLOEXEC));
        return ::write(file.get(), value, 1) == 1;
    };
    ASSERT_TRUE(set_frozen("1"));
    {
        KeeperProcess keeper;
        KeeperClient client = keeper.client(200ms);
        const UniqueFd directory(::open(group.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        KeeperExec what = keeper.shell(1, "grep -c berth-keeper-test /proc/self/cgroup");
        what.group_kind = keeper::GroupKind::V2Directory;
        what.groups = {directory.get()};
        const auto late = client.exec(what, keeper.make_log(what));
        ASSERT_FALSE(late);
        EXPECT_EQ(late.error().code, Code::DeadlineExceeded);

        KeeperClient other = keeper.client();
        EXPECT_TRUE(other.ping()) << "a frozen launch must not hold the keeper";
        ASSERT_EQ(must(other.list()).size(), 1u);
        EXPECT_EQ(must(other.list())[0].state, keeper::State::Starting);
        const KeeperExec next = keeper.command(2, {"true"});
        EXPECT_EQ(must(other.exec(next, keeper.make_log(next))).error, EAGAIN);

        EXPECT_TRUE(set_frozen("0"));
        ExecFollower follower = keeper.follow(1);
        EXPECT_EQ(read_all(follower).out, "1\n");
    }
    const auto until = std::chrono::steady_clock::now() + 5s;
    while (::rmdir(group.c_str()) != 0 && std::chrono::steady_clock::now() < until) ::usleep(1000);
    EXPECT_NE(::access(group.c_str(), F_OK), 0);
}

} // namespace
} // namespace berth::local::test
