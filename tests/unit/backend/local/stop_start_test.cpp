#include "backend/local/shared.hpp"
#include "backend/local/stop_start.hpp"

#include "local_fixture.hpp"

#include "keeping/native.hpp"
#include "sys/cgroup.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class StopStart : public LocalFixture {
protected:
    static Found look(const SandboxHandle& sandbox, Backend& backend = *backend_)
    {
        auto found = run_task(backend.inspect(sandbox));
        EXPECT_TRUE(found) << found.error().line();
        return found.value_or(Found{});
    }
    static void stop(const SandboxHandle& sandbox, Ms grace = 5s, Backend& backend = *backend_)
    {
        const auto stopped = run_task(backend.stop(sandbox, grace));
        EXPECT_TRUE(stopped) << stopped.error().line();
    }
    static Started start(const SandboxHandle& sandbox, Backend& backend = *backend_)
    {
        auto started = run_task(backend.start(sandbox));
        EXPECT_TRUE(started) << started.error().line();
        return started.value_or(Started{});
    }
};

TEST(NativeName, IsTheIdAndFromTheSecondGenerationOnItsNumber)
{
    const std::string id = make_sandbox_id(system_clock());
    EXPECT_EQ(native_name(id, 1), id);
    EXPECT_EQ(native_name(id, 12), id + ".12");
    EXPECT_EQ(sandbox_of(id + ".12"), id);
    EXPECT_TRUE(is_native(id));
    EXPECT_TRUE(is_native(id + ".2"));
    for (const char* bad :
         {".", ".1", ".02", ".x", "..", "./2", ".2/..", ".-2", ".2.3", ".99999999999999999999", "/..", " "})
        EXPECT_FALSE(is_native(id + bad)) << bad;
    EXPECT_FALSE(is_native(""));
    EXPECT_FALSE(is_native("../" + id));
}

TEST_F(StopStart, KeepsFilesAndTellsItsState)
{
    const auto sandbox = make();
    run(sandbox, "echo kept > ~/file; mkdir ~/dir");
    stop(sandbox);
    auto found = look(sandbox);
    EXPECT_EQ(found.state, State::Stopped);
    EXPECT_EQ(found.health, Health::Healthy);
    EXPECT_TRUE(record_of(sandbox).stopped);
    const auto started = start(sandbox);
    EXPECT_FALSE(started.unsynced_since);
    found = look(sandbox);
    EXPECT_EQ(found.state, State::Running);
    EXPECT_EQ(found.health, Health::Healthy);
    EXPECT_EQ(run(sandbox, "cat ~/file; test -d ~/dir && wc -c < /etc/machine-id"), "kept\n33\n");
}

TEST_F(StopStart, AStartIsABoot)
{
    const auto sandbox = make();
    const char* const ask = "cat /proc/sys/kernel/random/boot_id";
    const auto first = run(sandbox, ask);
    EXPECT_EQ(first.size(), 37u);
    EXPECT_EQ(run(sandbox, ask), first) << "as long as it runs";
    stop(sandbox);
    start(sandbox);
    EXPECT_NE(run(sandbox, ask), first);
}

TEST_F(StopStart, BothAreIdempotent)
{
    const auto sandbox = make();
    EXPECT_FALSE(start(sandbox).unsynced_since);
    EXPECT_EQ(run(sandbox, "echo still"), "still\n");
    stop(sandbox);
    stop(sandbox);
    start(sandbox);
    start(sandbox);
    EXPECT_EQ(run(sandbox, "echo again"), "again\n");
    const SandboxHandle nobody{.sandbox = make_sandbox_id(system_clock()), .native = {}};
    stop({.sandbox = nobody.sandbox, .native = nobody.sandbox});
    const auto none = run_task(backend_->start({.sandbox = nobody.sandbox, .native = nobody.sandbox}));
    EXPECT_EQ(none.error().code, Code::NotFound);
}

TEST_F(StopStart, KeepsTheLabelsOfTheInstance)
{
    CreateRequest request{spec()};
    request.labels = {.key = "project/one",
                      .spec_hash = "abc",
                      .exo_hash = "def",
                      .owner = "store-1",
                      .created = system_clock().now(),
                      .generation = 3};
    const auto sandbox = make(request);
    EXPECT_EQ(sandbox.native, request.spec.id + ".3");
    EXPECT_EQ(look(sandbox).labels, request.labels);
    stop(sandbox);
    EXPECT_EQ(look(sandbox).labels, request.labels);
    const auto all = run_task(backend_->scan());
    ASSERT_EQ(all->size(), 1u);
    EXPECT_EQ(all->front().sandbox, sandbox);
    EXPECT_EQ(all->front().labels, request.labels);
    const auto again = run_task(backend_->create(request));
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(*again, sandbox) << "creating finds the stopped one";
    EXPECT_EQ(look(sandbox).state, State::Stopped);
}

TEST_F(StopStart, TwoGenerationsLieSideBySide)
{
    const CreateRequest first{spec()};
    CreateRequest second = first;
    second.labels.generation = 2;
    const auto old = make(first);
    const auto young = make(second);
    run(old, "echo old > ~/f");
    EXPECT_EQ(run(young, "test -e ~/f || echo none"), "none\n");
    ASSERT_TRUE(run_task(backend_->destroy(old)));
    EXPECT_EQ(look(old).health, Health::Gone);
    EXPECT_EQ(run(young, "echo $BERTH_SANDBOX"), first.spec.id + "\n");
}

TEST_F(StopStart, CommandsEndWithTheirTrueStatus)
{
    const auto sandbox = make();
    const ExecSpec polite = shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done");
    const ExecSpec stubborn = shell("trap '' TERM; echo ready; while :; do sleep 0.02; done");
    for (const auto& exec : {polite, stubborn}) {
        ASSERT_TRUE(run_task(backend_->exec(sandbox, exec)));
        for (std::uint64_t from = 0;;) {
            const auto events =
                run_task(backend_->read_events(sandbox, exec.id, from, system_clock().steady() + 20s));
            ASSERT_TRUE(events && !events->empty());
            if (events->back().bytes == "ready\n") break;
            from = events->back().sequence + 1;
        }
    }
    stop(sandbox, 500ms);
    std::vector<ExecEvent::Kind> kinds;
    EXPECT_THAT(read_log(*backend_, sandbox, polite.id, &kinds), HasSubstr("bye\n"));
    EXPECT_EQ(kinds.back(), ExecEvent::Kind::Closed);
    const auto ended = run_task(backend_->wait(sandbox, polite.id, system_clock().steady()));
    ASSERT_TRUE(ended && *ended) << (ended ? "no end" : ended.error().line());
    EXPECT_EQ((**ended).status.code(), 7);
    const auto killed = run_task(backend_->wait(sandbox, stubborn.id, system_clock().steady()));
    ASSERT_TRUE(killed && *killed);
    EXPECT_EQ((**killed).status.signal(), SIGKILL);
    const auto execs = run_task(backend_->execs(sandbox));
    ASSERT_TRUE(execs) << execs.error().line();
    ASSERT_EQ(execs->size(), 2u);
    for (const auto& exec : *execs) {
        EXPECT_FALSE(exec.running);
        EXPECT_EQ(exec.status->code(), exec.id == polite.id ? std::optional(7) : std::nullopt);
    }
    EXPECT_TRUE(run_task(backend_->settle_exec(sandbox, polite.id)));

    start(sandbox);
    EXPECT_THAT(read_log(*backend_, sandbox, polite.id), HasSubstr("bye\n")) << "also with another keeper";
    const auto after = run_task(backend_->wait(sandbox, polite.id, system_clock().steady()));
    ASSERT_TRUE(after && *after) << (after ? "no end" : after.error().line());
    EXPECT_EQ((**after).status.code(), 7);
}

TEST_F(StopStart, RefusesCommandsAndFilesWhileStopped)
{
    const auto sandbox = make();
    stop(sandbox);
    const auto exec = run_task(backend_->exec(sandbox, shell("true")));
    ASSERT_FALSE(exec);
    EXPECT_EQ(exec.error().code, Code::Conflict);
    EXPECT_THAT(exec.error().line(), HasSubstr("is stopped: berth start " + sandbox.native));
    const auto file = run_task(backend_->read_file(sandbox, {.path = "/etc/passwd"}, 1_MiB));
    EXPECT_EQ(file.error().code, Code::Conflict);
}

/// A keeper that died behind our back took the processes with it, not the files.
TEST_F(StopStart, AKilledKeeperIsAStoppedSandbox)
{
    const auto sandbox = make();
    run(sandbox, "echo kept > ~/file");
    const ExecSpec exec = shell("echo begun; sleep 100");
    ASSERT_TRUE(run_task(backend_->exec(sandbox, exec)));
    const auto until = system_clock().steady() + 20s;
    ASSERT_TRUE(run_task(backend_->read_events(sandbox, exec.id, 1, until)));
    kill_keeper(sandbox);
    const auto ended = run_task(backend_->wait(sandbox, exec.id, until));
    ASSERT_TRUE(ended && *ended) << (ended ? "no end" : ended.error().line());
    EXPECT_FALSE((**ended).status.known()) << "nobody saw it end";
    std::vector<ExecEvent::Kind> kinds;
    EXPECT_EQ(read_log(*backend_, sandbox, exec.id, &kinds), "begun\n");
    EXPECT_EQ(kinds.back(), ExecEvent::Kind::Closed);
    const auto found = look(sandbox);
    EXPECT_EQ(found.state, State::Stopped);
    EXPECT_EQ(found.health, Health::Healthy);
    EXPECT_FALSE(start(sandbox).unsynced_since) << "only processes died";
    EXPECT_EQ(run(sandbox, "cat ~/file"), "kept\n");
}

TEST_F(StopStart, AMachineThatWentDownIsTold)
{
    const auto sandbox = make();
    run(sandbox, "echo kept > ~/file");
    kill_keeper(sandbox);
    Instance record = record_of(sandbox);
    record.boot = "another-boot";
    record.synced = WallTime(1234s);
    const UniqueFd directory(::open(directory_of(sandbox).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(write_instance(directory.get(), record));
    EXPECT_EQ(look(sandbox).state, State::Stopped);
    // A start that is killed has told nobody.
    EXPECT_TRUE(killed_at("keeper started", [&] {
        auto state = StateDir::open(dir_ + "/state");
        (void)start_instance(*state, sandbox.native);
    }));
    const auto started = start(sandbox);
    ASSERT_TRUE(started.unsynced_since);
    EXPECT_EQ(*started.unsynced_since, WallTime(1234s));
    EXPECT_EQ(run(sandbox, "cat ~/file"), "kept\n");
    stop(sandbox);
    EXPECT_FALSE(start(sandbox).unsynced_since) << "told once";
}

TEST_F(StopStart, ADirectoryThatIsGoneIsGone)
{
    const auto sandbox = make();
    kill_keeper(sandbox);
    const UniqueFd all(::open((dir_ + "/state/sandbox").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(sys::remove_tree(all.get(), sandbox.native));
    const auto found = look(sandbox);
    EXPECT_EQ(found.health, Health::Gone);
    EXPECT_EQ(found.state, State::Lost);
    EXPECT_EQ(run_task(backend_->exec(sandbox, shell("true"))).error().code, Code::NotFound);
    const auto places = sys::CgroupTree::open().kept_places(sandbox.native, {});
    EXPECT_TRUE(run_task(backend_->destroy(sandbox)));
    if (!places.v2.empty()) EXPECT_FALSE(std::filesystem::exists(places.v2)) << "its groups are left";
}

/// What one process knows of a sandbox is never more than another may have changed.
TEST_F(StopStart, AnotherProcessMayStopStartAndDestroyIt)
{
    const auto sandbox = make();
    auto other = open_backend();
    EXPECT_EQ(run(*other, sandbox, "echo one"), "one\n");
    stop(sandbox, 1s, *other);
    EXPECT_EQ(run_task(backend_->exec(sandbox, shell("true"))).error().code, Code::Conflict);
    start(sandbox, *other);
    EXPECT_EQ(run(sandbox, "echo two"), "two\n");
    stop(sandbox);
    start(sandbox);
    EXPECT_EQ(run(*other, sandbox, "echo three"), "three\n");
    const auto written = run_task(other->write_file(sandbox, {.path = "/home/user/f"}, "x", {}));
    EXPECT_TRUE(written) << written.error().line();
    ASSERT_TRUE(run_task(other->destroy(sandbox)));
    EXPECT_EQ(run_task(backend_->exec(sandbox, shell("true"))).error().code, Code::NotFound);
    EXPECT_EQ(look(sandbox).health, Health::Gone);
}

TEST_F(StopStart, IsDestroyedInEveryState)
{
    const auto running = make();
    const auto stopped = make();
    const auto dead = make();
    stop(stopped);
    kill_keeper(dead);
    auto other = open_backend();
    for (const auto& sandbox : {running, stopped, dead}) {
        const auto gone = run_task(other->destroy(sandbox));
        EXPECT_TRUE(gone) << gone.error().line();
        EXPECT_FALSE(std::filesystem::exists(directory_of(sandbox)));
    }
}

TEST_F(StopStart, TheSameIdRangeIsNotHeldWhileStopped)
{
    const auto sandbox = make();
    stop(sandbox);
    EXPECT_FALSE(record_of(sandbox).slot);
    EXPECT_TRUE(record_of(sandbox).groups.empty());
    EXPECT_FALSE(std::filesystem::exists(directory_of(sandbox) + "/sock"));
    EXPECT_FALSE(std::filesystem::exists(directory_of(sandbox) + "/fs/w1/work"));
}

/// Killed at each step, by whoever: what comes after finds the files, and nothing else is left.
TEST_F(StopStart, KilledAtEveryStepItGoesOn)
{
    const auto tree = sys::CgroupTree::open();
    const std::vector<std::string> of_stop{"stop: execs told",    "stop: execs killed", "stop: keeper ended",
                                           "rest: nothing runs",  "rest: logs settled", "rest: files synced",
                                           "rest: marks removed", "rest: recorded"};
    const std::vector<std::string> of_start{"sandbox's groups made", "keeper started", "keeper recorded"};
    const auto walk = [&](const std::string& label, bool stopping) {
        SCOPED_TRACE(label);
        auto wanted = spec();
        if (tree.of(sys::Controller::Memory).available()) wanted.policy.limits.memory = 256_MiB;
        const auto sandbox = make(wanted);
        run(sandbox, "echo kept > ~/file");
        const ExecSpec exec = shell("echo begun; sleep 100");
        ASSERT_TRUE(run_task(backend_->exec(sandbox, exec)));
        if (!stopping) stop(sandbox, 0ms);
        EXPECT_TRUE(killed_at(label, [&] {
            auto state = StateDir::open(dir_ + "/state");
            if (stopping)
                (void)stop_instance(*state, sandbox.native, 200ms);
            else
                (void)start_instance(*state, sandbox.native);
        }));
        EXPECT_NE(look(sandbox).health, Health::Gone);
        start(sandbox);
        EXPECT_EQ(run(sandbox, "cat ~/file"), "kept\n");
        stop(sandbox, 200ms);
        std::vector<ExecEvent::Kind> kinds;
        read_log(*backend_, sandbox, exec.id, &kinds);
        ASSERT_FALSE(kinds.empty());
        EXPECT_EQ(kinds.back(), ExecEvent::Kind::Closed);
        const auto places = tree.kept_places(sandbox.native, {.memory = 256_MiB});
        for (const auto& path : places.distinct_v1()) EXPECT_FALSE(std::filesystem::exists(path)) << path;
        if (!places.v2.empty()) EXPECT_FALSE(std::filesystem::exists(places.v2)) << places.v2;
        EXPECT_TRUE(run_task(backend_->destroy(sandbox)));
    };
    for (const auto& label : of_stop) walk(label, true);
    for (const auto& label : of_start) walk(label, false);
}

TEST_F(StopStart, RemovedByAnotherProcessItLeavesNoPlaceholder)
{
    const std::string work = dir_ + "/work";
    fs::create_directories(work);
    fs::permissions(dir_, fs::perms(0755));
    auto wanted = spec();
    wanted.policy = *policy::preset("workspace-write");
    wanted.policy.limits = {};
    Mount mount;
    mount.source = mount.target = work;
    mount.mode = Mount::Mode::ReadWrite;
    mount.workspace = true;
    wanted.mounts = {mount};
    auto maker = open_backend();
    const auto made = run_task(maker->create(wanted));
    ASSERT_TRUE(made) << made.error().line();
    maker.reset();
    EXPECT_TRUE(fs::exists(work + "/.git")) << "what a mount lies on";
    ASSERT_TRUE(run_task(backend_->destroy(*made)));
    EXPECT_TRUE(fs::is_empty(work));
    fs::remove_all(work);
}

TEST_F(StopStart, ANarrowerCommandLeavesNoPlaceholderAlsoWhenItsStreamsEndLater)
{
    const std::string work = dir_ + "/work";
    fs::create_directories(work);
    fs::permissions(dir_, fs::perms(0755));
    auto wanted = spec();
    Mount mount;
    mount.source = mount.target = work;
    mount.mode = Mount::Mode::ReadWrite;
    mount.workspace = true;
    wanted.mounts = {mount};
    const auto sandbox = make(wanted);
    // Its child holds the streams, and so the keeper the placeholder, for a while after its own end.
    auto exec = shell("test -e " + work + "/.git && echo held; sleep 0.2 & exit 3");
    exec.policy = *policy::preset("workspace-write");
    exec.policy->limits = {};
    ASSERT_TRUE(run_task(backend_->exec(sandbox, exec)));
    const auto ended = run_task(backend_->wait(sandbox, exec.id, system_clock().steady() + 20s));
    ASSERT_TRUE(ended && *ended);
    EXPECT_EQ((*ended)->status.code(), 3);
    EXPECT_TRUE(fs::is_empty(work)) << "what stood for .git is left";
    ASSERT_TRUE(run_task(backend_->destroy(sandbox)));
    fs::remove_all(work);
}

TEST_F(StopStart, CommandsThatMayGainPrivilegesRunUnderLimits)
{
    if (::geteuid() != 0) GTEST_SKIP() << "needs ids of its own: sudo ./dev test";
    auto wanted = spec();
    wanted.policy.privileges = policy::Privileges::Sudo;
    wanted.policy.limits.pids = 200;
    const auto sandbox = make(wanted);
    EXPECT_EQ(run(sandbox, "grep -E 'NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\n'"),
              "NoNewPrivs:\t0Seccomp:\t2");
    ASSERT_TRUE(run_task(backend_->stop(sandbox, Ms(0))));
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    EXPECT_EQ(run(sandbox, "echo on"), "on\n");
}

} // namespace
} // namespace berth::local
