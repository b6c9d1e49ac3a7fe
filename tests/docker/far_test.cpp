// An engine of another machine (BERTH_TEST_ENGINE=far): everything through the Engine API, a command outlives
// whoever started it, and what would need this machine's directories or kernel is refused by name.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DockerFar : public Docker {
protected:
    void SetUp() override
    {
        if (!test::DockerEngine::is_far()) GTEST_SKIP() << "for BERTH_TEST_ENGINE=far";
        Docker::SetUp();
    }
    Error refused(AcquireRequest request)
    {
        const auto made = acquire(std::move(request));
        EXPECT_FALSE(made);
        EXPECT_THAT(ours(), IsEmpty()) << "nothing was made";
        return made ? Error{} : made.error();
    }
    static ExecSpec detached(const std::string& script, const std::string& id)
    {
        ExecSpec exec;
        exec.id = id;
        exec.argv = {"sh", "-c", script};
        return exec;
    }
    /// Everything an exec has printed, and its end.
    std::string heard(const SandboxRecord& record, const std::string& exec, std::optional<ExitStatus>& end)
    {
        auto* const where = *berth_->backend("docker");
        std::string out;
        const auto until = system_clock().steady() + 60s;
        for (std::uint64_t from = 0;;) {
            const auto events = berth_->run(where->read_events(Lifecycle::handle(record), exec, from, until));
            if (!events || events->empty()) {
                ADD_FAILURE() << (events ? "it does not end" : events.error().line());
                return out;
            }
            for (const auto& event : *events) {
                EXPECT_NE(event.kind, ExecEvent::Kind::Gap);
                out += event.bytes;
                if (event.kind == ExecEvent::Kind::Exit) end = event.status;
                if (event.kind == ExecEvent::Kind::Closed) return out;
                from = event.sequence + 1;
            }
        }
    }
};

TEST_F(DockerFar, ACommandOutlivesItsStarterAndNothingItPrintsIsLost)
{
    made();
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    const auto id = make_exec_id(system_clock());
    // More than the relay holds for nobody, so it waits in the middle and goes on when somebody comes.
    const std::string script =
        "i=0; while [ $i -lt 40 ]; do head -c 50000 /dev/zero | tr '\\0' x; i=$((i+1)); "
        "done; echo last; exit 7";
    const pid_t starter = ::fork();
    if (starter == 0) {
        auto own = Berth::open({.data = data_, .threads = 2});
        const bool good = own && (*own)->run((*own)->lifecycle().exec(record, detached(script, id)));
        if (good) ::raise(SIGKILL);
        ::_exit(1);
    }
    int status = 0;
    ::waitpid(starter, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the starter could not start it";
    std::optional<ExitStatus> end;
    const auto out = heard(record, id, end);
    EXPECT_EQ(out.size(), 40u * 50'000 + 5);
    EXPECT_EQ(out.find_first_not_of('x'), 40u * 50'000);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->code(), 7);
}

TEST_F(DockerFar, AnotherProcessSignalsAndKillsIt)
{
    made();
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    const auto id = make_exec_id(system_clock());
    // Forked before there is anything to inherit: the right to the log goes with a descriptor.
    struct Other {
        pid_t pid;
        int go;
    };
    const auto other = [&](auto act) {
        int ends[2];
        EXPECT_EQ(::pipe(&ends[0]), 0);
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::close(ends[1]);
            char byte = 0;
            if (::read(ends[0], &byte, 1) != 1) ::_exit(2);
            auto own = Berth::open({.data = data_, .threads = 2});
            const auto done = own ? act(**own) : Status(std::unexpected(own.error()));
            if (!done) std::cerr << done.error().line() << "\n";
            ::_exit(done ? 0 : 1);
        }
        ::close(ends[0]);
        return Other{.pid = pid, .go = ends[1]};
    };
    const auto handle = Lifecycle::handle(record);
    const auto tells =
        other([&](Berth& own) { return own.run((*own.backend("docker"))->signal(handle, id, SIGUSR1)); });
    const auto kills = other([&](Berth& own) { return own.run((*own.backend("docker"))->kill(handle, id)); });
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(
        record,
        detached("trap 'echo told; sleep 0.1; echo on' USR1; echo up; while :; do sleep 0.05; done", id))));
    for (const auto& one : {tells, kills}) {
        EXPECT_EQ(::write(one.go, "x", 1), 1);
        int status = 0;
        ::waitpid(one.pid, &status, 0);
        EXPECT_EQ(status, 0);
        ::close(one.go);
    }
    std::optional<ExitStatus> end;
    EXPECT_THAT(heard(record, id, end), testing::StartsWith("up\n"));
    ASSERT_TRUE(end);
    EXPECT_EQ(end->signal(), SIGKILL);
}

TEST_F(DockerFar, WhoLooksLaterSeesTheEndAtOnce)
{
    made();
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    const auto id = make_exec_id(system_clock());
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(
        record, detached("echo one; until [ -e ~/go ]; do sleep 0.05; done; echo two; exit 4", id))));
    const auto pid = berth_->run((*berth_->backend("docker"))->exec_pid(Lifecycle::handle(record), id));
    ASSERT_TRUE(pid) << pid.error().line();
    berth_ = open(); // the one who started it is gone
    shell("demo", fmt::format("touch ~/go; while [ -e /proc/{} ]; do sleep 0.05; done", *pid));
    const auto all = berth_->run((*berth_->backend("docker"))->execs(Lifecycle::handle(record)));
    ASSERT_TRUE(all) << all.error().line();
    const auto one = std::ranges::find(*all, id, &ExecInfo::id);
    ASSERT_NE(one, all->end());
    ASSERT_TRUE(one->status) << "it runs";
    EXPECT_EQ(one->status->code(), 4);
    std::optional<ExitStatus> end;
    EXPECT_EQ(heard(record, id, end), "one\ntwo\n");
}

TEST_F(DockerFar, WhatNeedsThisMachineIsRefusedByName)
{
    auto request = wish("mounted");
    request.spec.mounts = {{.source = data_, .target = "/mnt/here", .mode = Mount::Mode::ReadOnly}};
    auto error = refused(request);
    EXPECT_EQ(error.code, Code::Unsupported) << error.line();
    EXPECT_THAT(error.line(), HasSubstr("mount at /mnt/here"));
    EXPECT_THAT(error.line(), HasSubstr("on another machine"));
    request = wish("ruled");
    request.spec.policy = *policy::preset("read-only");
    error = refused(request);
    EXPECT_EQ(error.code, Code::Unsupported) << error.line();
    EXPECT_THAT(error.line(), HasSubstr("another machine"));
    made();
    ExecSpec exec = detached("true", make_exec_id(system_clock()));
    exec.policy = *policy::preset("sandbox");
    const auto narrow = berth_->run(berth_->exec("demo", std::move(exec), {}));
    ASSERT_FALSE(narrow);
    EXPECT_EQ(narrow.error().code, Code::Unsupported) << narrow.error().line();
    EXPECT_EQ(berth_->run(berth_->lifecycle().attach("docker", "berth-none", "")).error().code,
              Code::Unsupported);
    EXPECT_EQ(berth_->run(berth_->lifecycle().pause("demo")).error().code, Code::Unsupported);
}

TEST_F(DockerFar, ItNeedsNothingOfTheEnginesMachine)
{
    made();
    // Whatever process of this machine has the number of the container's first one is not its keeper.
    EXPECT_EQ(shell("demo", "cat /proc/1/comm; id -un; echo kept > ~/note"), "keeper\nuser\n");
    EXPECT_EQ(command("docker inspect -f '{{len .HostConfig.Mounts}} {{.HostConfig.NetworkMode}}' " + ours()),
              "0 none");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("demo", 1s)));
    EXPECT_EQ(acquire(wish("demo"))->tier, Tier::Started);
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
    const auto moved = berth_->run(berth_->lifecycle().move("demo", {.backend = "local"}));
    ASSERT_TRUE(moved) << moved.error().line();
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
    EXPECT_THAT(ours(), IsEmpty());
    const auto back = berth_->run(berth_->lifecycle().move("demo", {.backend = "docker"}));
    ASSERT_TRUE(back) << back.error().line();
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
}

TEST_F(DockerFar, ACommandThatDiedWithItsContainerIsNoSuccess)
{
    made();
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    const auto id = make_exec_id(system_clock());
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(record, detached("sleep 1000", id))));
    command("docker kill " + ours());
    std::optional<ExitStatus> end;
    heard(record, id, end);
    EXPECT_FALSE(end && end->success());
    EXPECT_EQ(shell("demo", "echo again"), "again\n") << "who uses it starts it";
}

} // namespace
} // namespace berth
