#include "backend/local/local_backend.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <boost/asio/detached.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "support/run_task.hpp"
#include "sys/cgroup.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

SteadyTime in(std::chrono::nanoseconds time) { return system_clock().steady() + time; }

/// One state directory for all tests, so that the template is made once; gone afterwards.
class LocalBackendTest : public ::testing::Test {
protected:
    static void SetUpTestSuite()
    {
        char path[] = "/tmp/berth-backend-XXXXXX";
        ASSERT_NE(::mkdtemp(&path[0]), nullptr);
        dir_ = &path[0];
        pool_.emplace(2);
        auto opened = LocalBackend::open({.state_path = dir_ + "/state", .pool = &*pool_});
        ASSERT_TRUE(opened) << opened.error().line();
        backend_ = *std::move(opened);
    }
    static void TearDownTestSuite()
    {
        backend_.reset();
        pool_.reset();
        const std::filesystem::path path = dir_;
        const UniqueFd parent(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto removed = sys::remove_tree(parent.get(), path.filename());
        EXPECT_TRUE(removed) << removed.error().line();
    }

    static SandboxSpec spec()
    {
        SandboxSpec out;
        out.id = make_sandbox_id(system_clock());
        out.policy = *policy::preset("sandbox");
        out.policy.limits = {}; // limits have tests of their own
        return out;
    }
    static ExecSpec shell(const std::string& script)
    {
        ExecSpec out;
        out.id = make_exec_id(system_clock());
        out.argv = {"/bin/sh", "-c", script};
        return out;
    }

    static Task<Result<RunOutcome>> run_in(Backend& backend, SandboxHandle handle, ExecSpec exec)
    {
        if (auto started = co_await backend.exec(handle, exec); !started)
            co_return std::unexpected(std::move(started).error());
        co_return co_await backend.follow(handle, exec, {});
    }

    /// A sandbox that is gone with the test.
    struct Made {
        SandboxHandle handle;
        Made(const Made&) = delete;
        Made& operator=(const Made&) = delete;
        Made()
        {
            auto made = run_task(backend_->create(spec()));
            EXPECT_TRUE(made) << made.error().line();
            if (made) handle = *made;
        }
        ~Made()
        {
            const auto gone = run_task(backend_->destroy(handle));
            EXPECT_TRUE(gone) << gone.error().line();
        }
    };

    static Result<RunOutcome> follow(const SandboxHandle& sandbox, const ExecSpec& exec, std::string& out,
                                     std::string input = {})
    {
        if (auto started = run_task(backend_->exec(sandbox, exec)); !started)
            return std::unexpected(started.error());
        RunStreams streams;
        streams.input = std::move(input);
        streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
        return run_task(backend_->follow(sandbox, exec, streams));
    }

    static inline std::string dir_;
    static inline std::optional<BlockingPool> pool_;
    static inline std::unique_ptr<Backend> backend_;
};

TEST_F(LocalBackendTest, CreatingAgainFindsTheSame)
{
    const Made made;
    SandboxSpec again = spec();
    again.id = made.handle.sandbox;
    const auto found = run_task(backend_->create(again));
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_EQ(*found, made.handle);
    again.hostname = "other";
    EXPECT_EQ(run_task(backend_->create(again)).error().code, Code::Conflict);
}

TEST_F(LocalBackendTest, TwoCreatorsOfOneIdGetOneSandbox)
{
    const SandboxSpec wanted = spec();
    boost::asio::io_context loop;
    int made = 0;
    const auto create = [&]() -> Task<void> {
        const auto handle = co_await backend_->create(wanted);
        EXPECT_TRUE(handle) << handle.error().line();
        made += handle ? 1 : 0;
    };
    boost::asio::co_spawn(loop, create, boost::asio::detached);
    boost::asio::co_spawn(loop, create, boost::asio::detached);
    loop.run();
    EXPECT_EQ(made, 2);
    EXPECT_TRUE(run_task(backend_->destroy({.sandbox = wanted.id, .native = wanted.id})));
}

TEST_F(LocalBackendTest, MakesSandboxesSideBySide)
{
    boost::asio::io_context loop;
    std::vector<SandboxHandle> made;
    const auto create = [&]() -> Task<void> {
        auto handle = co_await backend_->create(spec());
        EXPECT_TRUE(handle) << handle.error().line();
        if (handle) made.push_back(*std::move(handle));
    };
    for (int i = 0; i < 4; ++i) boost::asio::co_spawn(loop, create, boost::asio::detached);
    loop.run();
    EXPECT_EQ(made.size(), 4u);
    for (const auto& handle : made) EXPECT_TRUE(run_task(backend_->destroy(handle)));
}

TEST_F(LocalBackendTest, AFailedCreationLeavesNothingAndCanBeTriedAgain)
{
    SandboxSpec bad = spec();
    bad.user = "nobody-of-this-name";
    ASSERT_FALSE(run_task(backend_->create(bad)));
    EXPECT_FALSE(std::filesystem::exists(dir_ + "/state/sandbox/" + bad.id));
    bad.user = "user";
    const auto made = run_task(backend_->create(bad));
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_TRUE(run_task(backend_->destroy(*made)));
}

TEST_F(LocalBackendTest, DestroyingWhatIsGoneIsSuccess)
{
    SandboxHandle handle;
    {
        const Made made;
        handle = made.handle;
    }
    EXPECT_TRUE(run_task(backend_->destroy(handle)));
    EXPECT_EQ(run_task(backend_->exec(handle, shell("true"))).error().code, Code::NotFound);
}

TEST_F(LocalBackendTest, RefusesIdsThatCouldLeadElsewhere)
{
    const SandboxHandle elsewhere{.sandbox = "../template", .native = "../template"};
    EXPECT_EQ(run_task(backend_->destroy(elsewhere)).error().code, Code::Invalid);
    EXPECT_EQ(run_task(backend_->exec(elsewhere, shell("true"))).error().code, Code::Invalid);
    const Made made;
    const auto read = run_task(backend_->read_events(made.handle, "../../x", 0, in(0s)));
    EXPECT_EQ(read.error().code, Code::Invalid);
}

TEST_F(LocalBackendTest, ScanFindsTheLivingTheDeadAndTheForgotten)
{
    const Made made;
    const std::string forgotten = make_sandbox_id(system_clock());
    std::filesystem::create_directory(dir_ + "/state/sandbox/" + forgotten);
    std::filesystem::create_directory(dir_ + "/state/sandbox/not-ours");
    const auto found = run_task(backend_->scan());
    ASSERT_TRUE(found) << found.error().line();
    std::map<std::string, Health> health;
    for (const auto& f : *found) health[f.sandbox.sandbox] = f.health;
    EXPECT_EQ(health.size(), 2u);
    EXPECT_EQ(health.at(made.handle.sandbox), Health::Healthy);
    EXPECT_EQ(health.at(forgotten), Health::Gone);
    std::filesystem::remove(dir_ + "/state/sandbox/" + forgotten);
    std::filesystem::remove(dir_ + "/state/sandbox/not-ours");
}

/// A second object on the same state directory knows as little of the first as another process.
TEST_F(LocalBackendTest, GoesOnWithWhatAnotherProcessMade)
{
    const SandboxSpec wanted = spec();
    const auto handle = *run_task(backend_->create(wanted));
    const ExecSpec early = shell("mkfifo /tmp/go; echo early; read x < /tmp/go; echo late");
    ASSERT_TRUE(run_task(backend_->exec(handle, early)));

    auto other = *LocalBackend::open({.state_path = dir_ + "/state", .pool = &*pool_});
    const auto again = run_task(other->create(wanted));
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(*again, handle) << "creating it again finds it";
    auto changed = wanted;
    changed.hostname = "another";
    EXPECT_EQ(run_task(other->create(changed)).error().code, Code::Conflict);
    const auto outcome = run_task(
        run_in(*other, handle, shell("until [ -p /tmp/go ]; do sleep 0.02; done; echo x > /tmp/go; exit 3")));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(outcome->status.code(), 3);
    const auto ended = run_task(other->wait(handle, early.id, in(30s)));
    ASSERT_TRUE(ended && *ended);
    EXPECT_EQ((**ended).status.code(), 0);
    std::string text;
    for (const auto& event : *run_task(other->read_events(handle, early.id, 0, in(30s)))) text += event.bytes;
    EXPECT_THAT(text, HasSubstr("early"));
    ASSERT_TRUE(run_task(other->destroy(handle)));
    EXPECT_TRUE(run_task(backend_->scan())->empty());
    EXPECT_TRUE(run_task(backend_->destroy(handle))) << "the first one's is gone: success";
}

TEST_F(LocalBackendTest, RemovesWhatIsLeftOfADeadOne)
{
    const auto handle = *run_task(backend_->create(spec()));
    const auto record = read_file(dir_ + "/state/sandbox/" + handle.sandbox + "/instance");
    ASSERT_TRUE(record) << record.error().line();
    ::kill(std::stoi(record->substr(record->find("\"pid\":") + 6)), SIGKILL);
    auto other = *LocalBackend::open({.state_path = dir_ + "/state", .pool = &*pool_});
    EXPECT_EQ(run_task(other->exec(handle, shell("true"))).error().code, Code::Conflict) << "it is stopped";
    EXPECT_EQ(run_task(other->create(spec())).has_value(), true);
    EXPECT_TRUE(run_task(other->destroy(handle)));
    EXPECT_FALSE(std::filesystem::exists(dir_ + "/state/sandbox/" + handle.sandbox));
    for (const auto& found : *run_task(other->scan())) EXPECT_TRUE(run_task(other->destroy(found.sandbox)));
    EXPECT_TRUE(run_task(backend_->destroy(handle)));
}

/// Killed at each label of a kept sandbox's making, the maker leaves what another process takes away.
TEST_F(LocalBackendTest, WhatAKilledMakerLeftIsRemoved)
{
    for (const char* label : {"sandbox recorded", "sandbox's groups made", "keeper started",
                              "keeper recorded", "sandbox made", "exec prepared", "keeper killed"}) {
        SCOPED_TRACE(label);
        SandboxSpec wanted = spec();
        const auto tree = sys::CgroupTree::open();
        if (tree.of(sys::Controller::Memory).available()) wanted.policy.limits.memory = 256_MiB;
        const pid_t maker = ::fork();
        if (maker == 0) {
            ::setenv("BERTH_TEST_KILL", label, 1);
            auto state = StateDir::open(dir_ + "/state");
            auto sandbox = Sandbox::create(*state, wanted, {});
            if (sandbox && sandbox->exec(shell("sleep 100"))) (void)sandbox->destroy();
            ::_exit(1);
        }
        int status = 0;
        ::waitpid(maker, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        const auto found = run_task(backend_->scan());
        ASSERT_EQ(found->size(), 1u);
        const auto removed = run_task(backend_->destroy(found->front().sandbox));
        EXPECT_TRUE(removed) << removed.error().line();
        EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/sandbox"));
        EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/trash"));
        const auto groups = tree.kept_places(wanted.id, {.memory = 256_MiB});
        for (const auto& path : groups.distinct_v1()) EXPECT_FALSE(std::filesystem::exists(path)) << path;
        if (!groups.v2.empty()) {
            EXPECT_FALSE(std::filesystem::exists(groups.v2)) << groups.v2;
        }
    }
}

TEST_F(LocalBackendTest, FollowsACommandToItsEnd)
{
    const Made made;
    std::string out;
    const auto outcome = follow(made.handle, shell("echo one; echo two; exit 7"), out);
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(outcome->status.code(), 7);
    EXPECT_EQ(out, "one\ntwo\n");
}

TEST_F(LocalBackendTest, FeedsMoreInputThanAPipeHolds)
{
    const Made made;
    std::string out;
    ExecSpec exec = shell("wc -c");
    exec.input = ExecSpec::Stdin::Open;
    const auto outcome = follow(made.handle, exec, out, std::string(300'000, 'x'));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(out, "300000\n");
}

TEST_F(LocalBackendTest, ReadsFromAnySequenceNumber)
{
    const Made made;
    const ExecSpec exec = shell("echo one; read -r line; echo two");
    ExecSpec open = exec;
    open.input = ExecSpec::Stdin::Open;
    ASSERT_TRUE(run_task(backend_->exec(made.handle, open)));
    std::uint64_t from = 0;
    std::string out;
    const auto read_until = [&](const std::string& text) {
        const auto until = in(20s);
        while (out.find(text) == std::string::npos && system_clock().steady() < until) {
            const auto events = run_task(backend_->read_events(made.handle, open.id, from, until));
            ASSERT_TRUE(events) << events.error().line();
            for (const auto& event : *events) {
                out += event.bytes;
                from = event.sequence + 1;
            }
        }
    };
    read_until("one\n");
    const auto quiet = run_task(backend_->read_events(made.handle, open.id, from, in(20ms)));
    ASSERT_TRUE(quiet) << quiet.error().line();
    EXPECT_TRUE(quiet->empty()) << "nothing new: the time is over";
    ASSERT_TRUE(run_task(backend_->write_input(made.handle, open.id, 1, "go\n")));
    read_until("two\n");
    EXPECT_EQ(out, "one\ntwo\n");
}

TEST_F(LocalBackendTest, WaitingHoldsNoThreadOfThePool)
{
    const Made made;
    const ExecSpec exec = shell("sleep 60");
    ASSERT_TRUE(run_task(backend_->exec(made.handle, exec)));
    boost::asio::io_context loop;
    int ended = 0;
    const auto until = in(30s);
    const auto wait = [&]() -> Task<void> {
        const auto answer = co_await backend_->wait(made.handle, exec.id, until);
        ended += answer && *answer && (**answer).status.signal() == SIGKILL ? 1 : 0;
    };
    const auto read = [&]() -> Task<void> {
        const auto events = co_await backend_->read_events(made.handle, exec.id, 1, until);
        ended += events && !events->empty() ? 1 : 0;
    };
    const auto kill = [&]() -> Task<void> {
        const auto killed = co_await backend_->kill(made.handle, exec.id);
        EXPECT_TRUE(killed) << killed.error().line();
    };
    // Six waits on a pool of two threads, and then the call that ends them all.
    for (int i = 0; i < 3; ++i) {
        boost::asio::co_spawn(loop, wait, boost::asio::detached);
        boost::asio::co_spawn(loop, read, boost::asio::detached);
    }
    boost::asio::co_spawn(loop, kill, boost::asio::detached);
    loop.run();
    EXPECT_EQ(ended, 6);
    EXPECT_LT(system_clock().steady(), until);
}

TEST_F(LocalBackendTest, TimesOutWithTheTruth)
{
    const Made made;
    std::string out;
    ExecSpec exec = shell("echo before; sleep 60");
    exec.timeout = 300ms;
    const auto outcome = follow(made.handle, exec, out);
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_TRUE(outcome->timed_out);
    EXPECT_EQ(outcome->status.signal(), SIGKILL);
    EXPECT_EQ(out, "before\n");
}

TEST_F(LocalBackendTest, SignalsReachTheCommand)
{
    const Made made;
    const ExecSpec exec = shell("trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done");
    ASSERT_TRUE(run_task(backend_->exec(made.handle, exec)));
    for (std::uint64_t from = 0;;) {
        const auto events = run_task(backend_->read_events(made.handle, exec.id, from, in(20s)));
        ASSERT_TRUE(events && !events->empty());
        from = events->back().sequence + 1;
        if (events->back().bytes == "ready\n") break;
    }
    EXPECT_FALSE(*run_task(backend_->wait(made.handle, exec.id, in(0s)))) << "it still runs";
    ASSERT_TRUE(run_task(backend_->signal(made.handle, exec.id, SIGUSR1)));
    const auto ended = run_task(backend_->wait(made.handle, exec.id, in(20s)));
    ASSERT_TRUE(ended && *ended);
    EXPECT_EQ((**ended).status.code(), 5);
}

TEST_F(LocalBackendTest, MovesFilesInAndOut)
{
    const Made made;
    const auto& sandbox = made.handle;
    const FilePath file{.path = "/home/user/a/b/file", .user = {}};
    ASSERT_TRUE(run_task(backend_->make_dir(sandbox, {.path = "/home/user/a/b"}, MakeParents::Yes)));
    ASSERT_TRUE(run_task(backend_->write_file(sandbox, file, "bytes\n", 0640)));
    EXPECT_EQ(*run_task(backend_->read_file(sandbox, file, 1_MiB)), "bytes\n");
    EXPECT_EQ(run_task(backend_->read_file(sandbox, file, Bytes{3})).error().code, Code::Invalid);
    const auto entry = run_task(backend_->stat_file(sandbox, file));
    ASSERT_TRUE(entry) << entry.error().line();
    EXPECT_EQ(entry->kind, FileEntry::Kind::Regular);
    EXPECT_EQ(entry->size.count, 6u);
    EXPECT_EQ(entry->mode, 0640u);
    ASSERT_TRUE(run_task(backend_->move_file(sandbox, file, "/home/user/a/b/other")));
    const auto listed = run_task(backend_->list_files(sandbox, {.path = "/home/user/a/b"}));
    ASSERT_TRUE(listed) << listed.error().line();
    ASSERT_EQ(listed->size(), 1u);
    EXPECT_EQ(listed->front().name, "other");
    std::string out;
    ASSERT_TRUE(follow(sandbox, shell("cat /home/user/a/b/other; stat -c %U /home/user/a/b/other"), out));
    EXPECT_EQ(out, "bytes\nuser\n") << "what is written from outside belongs to the user inside";
    EXPECT_FALSE(run_task(backend_->remove_file(sandbox, {.path = "/home/user/a"}, RemoveTree::No)));
    ASSERT_TRUE(run_task(backend_->remove_file(sandbox, {.path = "/home/user/a"}, RemoveTree::Yes)));
    EXPECT_EQ(run_task(backend_->stat_file(sandbox, {.path = "/home/user/a"})).error().code, Code::NotFound);
}

TEST_F(LocalBackendTest, ResizesATerminal)
{
    const Made made;
    ExecSpec exec = shell("trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.05; done");
    exec.terminal = TerminalSize{.rows = 30, .columns = 100};
    exec.timeout = 20s;
    ASSERT_TRUE(run_task(backend_->exec(made.handle, exec)));
    std::string out;
    bool resized = false;
    RunStreams streams;
    boost::asio::io_context loop;
    const auto resize = [&]() -> Task<void> {
        const auto done = co_await backend_->resize(made.handle, exec.id, {.rows = 40, .columns = 120});
        EXPECT_TRUE(done) << done.error().line();
    };
    streams.on_event = [&](const ExecEvent& event) {
        out += event.bytes;
        if (resized || out.find("30 100") == std::string::npos) return;
        resized = true;
        boost::asio::co_spawn(loop, resize, boost::asio::detached);
    };
    const auto all = [&]() -> Task<void> {
        const auto outcome = co_await backend_->follow(made.handle, exec, streams);
        EXPECT_TRUE(outcome && outcome->status.success());
    };
    boost::asio::co_spawn(loop, all, boost::asio::detached);
    loop.run();
    EXPECT_THAT(out, HasSubstr("40 120"));
}

TEST_F(LocalBackendTest, RunsAOneShotAndLeavesNothing)
{
    std::string out;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
    const auto outcome = run_task(backend_->run(spec(), shell("echo hi; sleep 60 & exit 3"), streams));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(outcome->status.code(), 3);
    EXPECT_EQ(out, "hi\n");
    EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/sandbox"));
    EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/trash"));
}

TEST_F(LocalBackendTest, ClaimsWhatItCanAndRefusesTheRest)
{
    const auto have = backend_->capabilities();
    EXPECT_TRUE(have.can(Operation::Pty));
    EXPECT_TRUE(have.can(Operation::ExecPolicy));
    EXPECT_EQ(have.can(Operation::Users), ::geteuid() == 0);
    EXPECT_EQ(have.holds.of(policy::Feature::NetworkOff).tier, policy::Tier::Outside);
    EXPECT_FALSE(have.can(Operation::Attach));
    EXPECT_EQ(run_task(backend_->attach("x")).error().code, Code::Unsupported);
}

TEST_F(LocalBackendTest, WhoAttendsACommandFromItsBeginningLosesNothingHoweverLateHeReads)
{
    const Made made;
    ExecSpec exec = shell("head -c 100000000 /dev/zero");
    exec.log_limit = Bytes{8u << 20};
    auto& now = dynamic_cast<BlockingExec&>(*backend_);
    ASSERT_TRUE(now.exec_now(made.handle, exec, BlockingExec::Reader::Attends));
    std::this_thread::sleep_for(200ms); // without a reader it would have lost most of it by now
    std::size_t seen = 0;
    for (std::uint64_t from = 0; seen < 100'000'000;) {
        const auto events = run_task(backend_->read_events(made.handle, exec.id, from, in(20s)));
        ASSERT_TRUE(events) << events.error().line();
        ASSERT_FALSE(events->empty());
        for (const auto& event : *events) {
            ASSERT_NE(event.kind, ExecEvent::Kind::Gap) << "behind " << seen;
            seen += event.bytes.size();
        }
        from = events->back().sequence + 1;
    }
}

} // namespace
} // namespace berth::local
