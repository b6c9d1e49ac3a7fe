#include "backend/local/sandbox.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "backend/local/stop_start.hpp"
#include "base/ids.hpp"
#include "policy/document.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;

/// The overlay's own work directory has mode 000, which only our removal can deal with.
void remove_all(const std::filesystem::path& path)
{
    const UniqueFd parent(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto removed = sys::remove_tree(parent.get(), path.filename());
    EXPECT_TRUE(removed) << removed.error().line();
}

/// One state directory for all tests, so that the template is made once; gone afterwards.
class SandboxTest : public ::testing::Test {
protected:
    static void SetUpTestSuite()
    {
        char path[] = "/tmp/berth-sandbox-XXXXXX";
        ASSERT_NE(::mkdtemp(&path[0]), nullptr);
        dir_ = &path[0];
        auto state = StateDir::open(dir_ + "/state");
        ASSERT_TRUE(state) << state.error().line();
        state_.emplace(*std::move(state));
    }
    static void TearDownTestSuite()
    {
        state_.reset();
        if (!dir_.empty()) remove_all(dir_);
    }

    SandboxSpec spec(std::string_view preset = "sandbox") const
    {
        SandboxSpec out;
        out.id = make_sandbox_id(system_clock());
        out.policy = *policy::preset(preset);
        // Limits have tests of their own, on machines that can hold them.
        out.policy.limits = {};
        return out;
    }

    static ExecSpec shell(const std::string& script)
    {
        ExecSpec out;
        out.id = make_exec_id(system_clock());
        out.argv = {"/bin/sh", "-c", script};
        return out;
    }

    struct Output {
        std::string out, err;
        ExitStatus status;
        std::string kinds; ///< first letters of the kinds, in order
    };
    static Output read_all(Sandbox& sandbox, const std::string& exec)
    {
        Output output;
        auto follower = sandbox.follow(exec, 0);
        EXPECT_TRUE(follower) << follower.error().line();
        const auto until = std::chrono::steady_clock::now() + 30s;
        while (follower && !follower->ended() && std::chrono::steady_clock::now() < until) {
            const auto events = follower->next(until);
            EXPECT_TRUE(events) << events.error().line();
            if (!events) break;
            for (const auto& event : *events) {
                output.kinds += to_string(event.kind)[0];
                if (event.kind == ExecEvent::Kind::Stdout || event.kind == ExecEvent::Kind::Pty)
                    output.out += event.bytes;
                if (event.kind == ExecEvent::Kind::Stderr) output.err += event.bytes;
                if (event.kind == ExecEvent::Kind::Exit) output.status = event.status;
            }
        }
        return output;
    }
    static Output run(Sandbox& sandbox, const ExecSpec& exec)
    {
        const auto started = sandbox.exec(exec);
        EXPECT_TRUE(started) << started.error().line();
        return started ? read_all(sandbox, exec.id) : Output{};
    }

    static inline std::string dir_;
    static inline std::optional<StateDir> state_;
};

TEST_F(SandboxTest, RunsCommandsOneAfterTheOtherOnTheSameFiles)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    EXPECT_EQ(run(*sandbox, shell("echo one > ~/f; whoami")).out, "user\n");
    const auto second = run(*sandbox, shell("cat ~/f; echo bad >&2; exit 7"));
    EXPECT_EQ(second.out, "one\n");
    EXPECT_EQ(second.err, "bad\n");
    EXPECT_EQ(second.status.code(), 7);
    EXPECT_TRUE(sandbox->destroy());
    EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/sandbox"));
    EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/trash"));
}

/// For a moment a process that was killed is neither dead nor to be looked at.
TEST_F(SandboxTest, TheFilesOfOneThatIsBeingKilledAreGoneAndNotDenied)
{
    for (int i = 0; i < 40; ++i) {
        auto sandbox = Sandbox::create(*state_, spec(), {});
        ASSERT_TRUE(sandbox) << sandbox.error().line();
        ::kill(sandbox->keeper_pid(), SIGKILL);
        for (int asked = 0; asked < 40; ++asked) {
            if (const auto files = sandbox->files({}); !files)
                EXPECT_EQ(files.error().code, Code::Unavailable) << files.error().line();
        }
        EXPECT_TRUE(sandbox->destroy());
    }
}

TEST_F(SandboxTest, TellsACommandThatCannotStart)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    ExecSpec missing = shell("");
    missing.argv = {"no-such-command"};
    const auto started = sandbox->exec(missing);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Code::NotFound);
    ExecSpec directory = shell("true");
    directory.cwd = "/no/such/place";
    const auto elsewhere = sandbox->exec(directory);
    ASSERT_FALSE(elsewhere);
    EXPECT_NE(elsewhere.error().message.find("/no/such/place"), std::string::npos)
        << elsewhere.error().line();
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, TakesInputAndItsEnd)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    ExecSpec cat = shell("cat; echo done");
    cat.input = ExecSpec::Stdin::Open;
    ASSERT_TRUE(sandbox->exec(cat));
    EXPECT_EQ(*sandbox->write_input(cat.id, 1, "hello\n"), 6u);
    EXPECT_EQ(*sandbox->write_input(cat.id, 1, "hello\n"), 6u) << "a repeated write id is not written twice";
    ASSERT_TRUE(sandbox->close_input(cat.id, 2));
    EXPECT_EQ(read_all(*sandbox, cat.id).out, "hello\ndone\n");
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, GivesATerminalThatFollowsItsSize)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    ExecSpec exec = shell("stty size; read x; stty size");
    exec.terminal = TerminalSize{.rows = 33, .columns = 99};
    exec.input = ExecSpec::Stdin::Open;
    ASSERT_TRUE(sandbox->exec(exec));
    ASSERT_TRUE(sandbox->resize(exec.id, {.rows = 40, .columns = 120}));
    // The first answer may come before or after the resize; the second comes after.
    ASSERT_TRUE(sandbox->write_input(exec.id, 1, "\n"));
    const auto output = read_all(*sandbox, exec.id);
    EXPECT_NE(output.out.find("40 120"), std::string::npos) << output.out;
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, OutlivesItsMakerAndKeepsTheLog)
{
    const auto wanted = spec();
    ExecSpec exec = shell("echo before; read line < /tmp/go; echo after");
    int tell[2];
    ASSERT_EQ(::pipe(&tell[0]), 0);
    const pid_t maker = ::fork();
    if (maker == 0) {
        auto sandbox = Sandbox::create(*state_, wanted, {});
        if (!sandbox) ::_exit(1);
        if (!run(*sandbox, shell("mkfifo /tmp/go")).status.known() || !sandbox->exec(exec)) ::_exit(2);
        const pid_t keeper = sandbox->keeper_pid();
        [[maybe_unused]] const auto n = ::write(tell[1], &keeper, sizeof keeper);
        ::raise(SIGKILL);
    }
    pid_t keeper = 0;
    ::close(tell[1]);
    ASSERT_EQ(::read(tell[0], &keeper, sizeof keeper), static_cast<ssize_t>(sizeof keeper));
    ::close(tell[0]);
    int status = 0;
    ::waitpid(maker, &status, 0);
    ASSERT_EQ(WTERMSIG(status), SIGKILL);

    const std::string where = dir_ + "/state/sandbox/" + wanted.id;
    auto directory = UniqueFd(::open(where.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto client = KeeperClient::connect(directory.get(), "sock", 10s);
    ASSERT_TRUE(client) << client.error().line();
    const auto items = client->list();
    ASSERT_TRUE(items);
    EXPECT_EQ(items->size(), 2u);
    auto files = UniqueFd(::open(fmt::format("/proc/{}/root/tmp/go", keeper).c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(files);
    ASSERT_EQ(::write(files.get(), "x\n", 2), 2);
    files.reset();

    auto logs = UniqueFd(::open((where + "/exec/" + exec.id).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto log = ExecLog::open(logs.get());
    ASSERT_TRUE(log);
    auto follower = ExecFollower::follow(*std::move(log), *keeper_id(exec.id), 0, *std::move(client));
    ASSERT_TRUE(follower) << follower.error().line();
    std::string out;
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (!follower->ended() && std::chrono::steady_clock::now() < until)
        for (const auto& event : *follower->next(until)) out += event.bytes;
    EXPECT_EQ(out, "before\nafter\n");
    auto end = KeeperClient::connect(directory.get(), "sock", 10s);
    ASSERT_TRUE(end);
    EXPECT_TRUE(end->stop());
    EXPECT_TRUE(destroy_instance(*state_, wanted.id));
}

TEST_F(SandboxTest, NarrowsOneCommandOnly)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    run(*sandbox, shell("mkdir -p ~/ws ~/secret; echo key > ~/secret/key; sleep 1000 > /dev/null 2>&1 &"));
    ExecSpec narrow = shell("echo w > ~/ws/f && echo ws; echo w > ~/g; cat ~/secret/key; "
                            "for p in /proc/[0-9]*; do cat $p/root/home/user/secret/key; done; "
                            "echo w > /etc/x; exit 3");
    auto policy =
        policy::parse(R"({"files":[{"read":":root"},{"write":"/home/user/ws"},{"deny":"/home/user/secret"}],
                                    "limits":{"pids":"unlimited","open_files":"unlimited"}})",
                      policy::Syntax::Json);
    ASSERT_TRUE(policy) << policy.error().line();
    narrow.policy = *policy;
    const auto output = run(*sandbox, narrow);
    EXPECT_EQ(output.out, "ws\n") << output.err;
    EXPECT_EQ(output.status.code(), 3) << output.err;
    EXPECT_NE(output.err.find("Read-only"), std::string::npos) << output.err;
    EXPECT_EQ(output.err.find("key\n\n"), std::string::npos);
    // The sandbox itself is as it was.
    EXPECT_EQ(run(*sandbox, shell("cat ~/secret/key; cat ~/ws/f; echo x > ~/g && echo wide")).out,
              "key\nw\nwide\n");
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, ACommandKeepsItsProtectedNamesWhenItsStarterIsKilled)
{
    const std::string workspace = dir_ + "/workspace";
    const std::string name = workspace + "/.git";
    ASSERT_EQ(::mkdir(workspace.c_str(), 0755), 0);
    auto wanted = spec();
    wanted.mounts = {
        {.source = workspace, .target = "/work", .mode = Mount::Mode::ReadWrite, .workspace = true}};
    const pid_t maker = ::fork();
    ASSERT_GE(maker, 0);
    if (maker == 0) {
        auto sandbox = Sandbox::create(*state_, wanted, {});
        ExecSpec narrow = shell("sleep 100");
        narrow.policy = *policy::preset("workspace-write");
        narrow.policy->limits = {};
        const auto started = sandbox ? sandbox->exec(narrow) : Status(std::unexpected(sandbox.error()));
        if (started) ::kill(::getpid(), SIGKILL);
        ::dprintf(2, "in the child: %s\n", started.error().line().c_str());
        ::_exit(1);
    }
    int status = 0;
    ::waitpid(maker, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));

    EXPECT_TRUE(ProtectedNames::sweep(state_->fd()));
    EXPECT_EQ(::access(name.c_str(), F_OK), 0) << "the keeper holds it for the command";
    const std::string where = dir_ + "/state/sandbox/" + wanted.id;
    const UniqueFd directory(::open(where.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto keeper = KeeperClient::connect(directory.get(), "sock", 10s);
    ASSERT_TRUE(keeper) << keeper.error().line();
    EXPECT_TRUE(keeper->stop());
    EXPECT_TRUE(ProtectedNames::sweep(state_->fd()));
    EXPECT_NE(::access(name.c_str(), F_OK), 0) << "nobody holds it any more";
    EXPECT_TRUE(destroy_instance(*state_, wanted.id));
}

TEST_F(SandboxTest, TakesTheNetworkFromOneCommand)
{
    auto open = spec();
    open.policy.network = policy::Network::Host;
    auto sandbox = Sandbox::create(*state_, open, {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    const auto wide = run(*sandbox, shell("readlink /proc/self/ns/net"));
    ExecSpec narrow = shell("readlink /proc/self/ns/net; grep -c : /proc/net/dev");
    narrow.policy = spec().policy;
    const auto output = run(*sandbox, narrow);
    EXPECT_NE(output.out.find("\n1\n"), std::string::npos) << "only loopback: " << output.out << output.err;
    EXPECT_FALSE(output.out.starts_with(wide.out)) << output.out;
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, RefusesAWiderPolicyForACommand)
{
    auto sandbox = Sandbox::create(*state_, spec("read-only"), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    ExecSpec wide = shell("true");
    wide.policy = *policy::preset("full-access");
    wide.policy->limits = {};
    const auto started = sandbox->exec(wide);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Code::Denied) << started.error().line();
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, KillsTheWholeTreeAtATimeout)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    ExecSpec exec = shell("sleep 1000 > /dev/null 2>&1 & sleep 1000");
    ASSERT_TRUE(sandbox->exec(exec));
    const auto ended = sandbox->wait_or_kill(exec.id, 100ms);
    ASSERT_TRUE(ended) << ended.error().line();
    EXPECT_TRUE(ended->timed_out);
    EXPECT_EQ(ended->status.signal(), SIGKILL);
    // All were killed at once; one may be a moment behind the other in dying.
    EXPECT_EQ(
        run(*sandbox, shell("i=0; while ps -e | grep -q 'slee[p]' && [ $i -lt 500 ]; do i=$((i+1)); done; "
                            "ps -e | grep -c 'slee[p]'"))
            .out,
        "0\n");
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, TouchesFilesWithTheSandboxsOwnRights)
{
    auto sandbox = Sandbox::create(*state_, spec(), {});
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    auto files = sandbox->files();
    ASSERT_TRUE(files) << files.error().line();
    ASSERT_TRUE(files->write("/home/user/a", "bytes"));
    EXPECT_EQ(run(*sandbox,
                  shell("cat ~/a; stat -c %U ~/a; ln -s /etc/hostname ~/out; ln -s /proc/1/environ ~/env"))
                  .out,
              "bytesuser\n");
    EXPECT_EQ(*files->read("/home/user/a", 1_KiB), "bytes");
    EXPECT_FALSE(files->read("/home/user/env", 1_KiB));
    std::ifstream host("/etc/hostname");
    std::string name;
    std::getline(host, name);
    const auto inside = files->read("/home/user/out", 1_KiB);
    if (inside) EXPECT_EQ(inside->find(name), std::string::npos) << "a link inside led to the host's file";
    EXPECT_TRUE(sandbox->destroy());
}

TEST_F(SandboxTest, IsLaunchedByACompanionProcessAsWell)
{
    auto spawner = sys::Spawner::start();
    ASSERT_TRUE(spawner) << spawner.error().line();
    Sandbox::Options options;
    options.spawner = &*spawner;
    auto sandbox = Sandbox::create(*state_, spec(), options);
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    EXPECT_EQ(run(*sandbox, shell("whoami")).out, "user\n");
    EXPECT_TRUE(sandbox->destroy());
    auto broken = spec();
    broken.hostname = "x";
    broken.workdir = "/";
    EXPECT_TRUE(Sandbox::create(*state_, broken, options)->destroy()) << "the companion serves more than one";
}

TEST_F(SandboxTest, GoesOnWhenItsCompanionProcessIsKilled)
{
    auto spawner = sys::Spawner::start();
    ASSERT_TRUE(spawner) << spawner.error().line();
    Sandbox::Options options;
    options.spawner = &*spawner;
    auto sandbox = Sandbox::create(*state_, spec(), options);
    ASSERT_TRUE(sandbox) << sandbox.error().line();
    auto narrow = shell("echo x > /tmp/w && echo wrote; (echo x > ~/w) 2>/dev/null || echo not at home");
    narrow.policy = sandbox->spec().policy;
    narrow.policy->files = {
        {.access = policy::Access::Read, .target = policy::Symbolic{.symbol = policy::Symbol::Root}},
        {.access = policy::Access::Write, .target = policy::Symbolic{.symbol = policy::Symbol::Tmpdir}}};
    const auto again = [&] {
        narrow.id = make_exec_id(system_clock());
        return run(*sandbox, narrow).out;
    };
    EXPECT_EQ(again(), "wrote\nnot at home\n");
    ::kill(spawner->pid(), SIGKILL);
    siginfo_t gone{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(spawner->pid()), &gone, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(again(), "wrote\nnot at home\n");
    EXPECT_TRUE(sandbox->destroy());
    auto another = Sandbox::create(*state_, spec(), options);
    ASSERT_TRUE(another) << another.error().line();
    EXPECT_TRUE(another->destroy());
}

TEST_F(SandboxTest, LeavesNothingWhenItCannotBeMade)
{
    auto bad = spec();
    bad.user = "nobody-knows";
    const auto sandbox = Sandbox::create(*state_, bad, {});
    ASSERT_FALSE(sandbox);
    EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/sandbox"));
}

} // namespace
} // namespace berth::local
