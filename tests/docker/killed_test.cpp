// kill -9 of the engine in the middle of each operation. The next engine on the same data ends what ran in
// its containers, as engines do; whoever comes then finds what was there, and nothing that is nobody's.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "docker/relayed_fixture.hpp"

namespace berth {
namespace {

class DockerKilled : public Relayed<Docker> {
protected:
    void make_kept()
    {
        made();
        shell("demo", "echo kept > ~/note");
    }
    /// One instance, on whichever backend, and its work in it.
    void expect_one()
    {
        EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
        collect();
        std::size_t found = 0;
        for (const char* name : {"docker", "local"}) {
            const auto all = berth_->run((*berth_->backend(name))->scan());
            ASSERT_TRUE(all) << all.error().line();
            found += all->size();
        }
        EXPECT_EQ(found, 1u);
    }
    /// Ours is stopped, and its engine says of it what one says that was killed as a container ended: that
    /// something with its id is there. It says so for ever.
    void block(const std::string& words)
    {
        ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("demo", 100ms)));
        const std::string container = ours();
        relay_->refuse([=](const std::string& request) {
            const bool start = request.find("/containers/" + container + "/start") != std::string::npos;
            return start ? fmt::format(fmt::runtime(words), container) : std::string{};
        });
    }
    std::size_t payloads() const
    {
        std::size_t count = 0;
        std::error_code missing;
        for (const auto& one : std::filesystem::directory_iterator(data_ + "/snapshot", missing))
            count += one.path().filename().string().starts_with("snap_") ? 1 : 0;
        return count;
    }
};

TEST_F(DockerKilled, WhileASandboxIsMade)
{
    kill_at_each(
        [] {
            // So that the template becomes an image in the engine each time.
            command("docker images -q berth-template | sort -u | xargs -r docker rmi -f");
        },
        [&] { return acquire(wish("demo")); },
        [&] {
            make_kept();
            expect_one();
        });
}

TEST_F(DockerKilled, WhileItIsStopped)
{
    kill_at_each([&] { make_kept(); }, [&] { return berth_->run(berth_->lifecycle().stop("demo", 100ms)); },
                 [&] { expect_one(); });
}

TEST_F(DockerKilled, WhatCanNeverBeStartedAgainGoesOnAsAnother)
{
    constexpr auto told = "docker ps -a --format '{{.Names}} {{.Command}} {{.Networks}}' --filter "
                          "label=berth.sandbox.id; docker inspect --format '{{json .HostConfig}}"
                          "{{index .Config.Labels \"berth.sandbox.key\"}}' $(docker ps -aq --filter "
                          "label=berth.sandbox.id)";
    make_kept();
    shell("demo", "ln -s note ~/link; chmod 640 ~/note; mkdir -m 700 ~/sub; cp /etc/machine-id ~/sub/id");
    const auto before = command(told);
    const auto container = ours();
    block("task {}: already exists");
    const auto used = berth_->run(berth_->lifecycle().use("demo"));
    ASSERT_TRUE(used) << used.error().line();
    EXPECT_NE(ours(), container);
    EXPECT_EQ(command(told), before);
    EXPECT_EQ(shell("demo", "cat ~/link; stat -c '%a %F' ~/note ~/sub; read -r was < ~/sub/id; grep -qx $was "
                            "/etc/machine-id"),
              "kept\n640 regular file\n700 directory\n");
    EXPECT_EQ(count_ours(), "1");
    // And from there on as ever.
    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("demo", 100ms)));
    reopen();
    expect_one();
    clear();
}

TEST_F(DockerKilled, WhileAContainerGoesOnAsAnother)
{
    kill_at_each(
        [&] {
            make_kept();
            block("mkdir /run/task/{}: file exists");
        },
        [&] { return berth_->run(berth_->lifecycle().use("demo")); },
        [&] {
            expect_one();
            EXPECT_EQ(count_ours(), "1");
        });
}

TEST_F(DockerKilled, WhileItIsStarted)
{
    kill_at_each(
        [&] {
            make_kept();
            ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("demo", 100ms)));
        },
        [&] { return berth_->run(berth_->lifecycle().use("demo")); }, [&] { expect_one(); });
}

TEST_F(DockerKilled, WhileASnapshotIsTaken)
{
    kill_at_each([&] { make_kept(); },
                 [&] {
                     auto taken = berth_->run(berth_->lifecycle().snapshot("demo", {}));
                     EXPECT_EQ(payloads(), taken ? 1u : 0u);
                     return taken;
                 },
                 [&] {
                     expect_one();
                     EXPECT_EQ(snapshot_images(), "");
                     const auto again = berth_->run(berth_->lifecycle().snapshot("demo", {}));
                     EXPECT_TRUE(again) << again.error().line();
                 });
}

TEST_F(DockerKilled, WhileASnapshotIsRestored)
{
    std::string snapshot;
    kill_at_each(
        [&] {
            make_kept();
            const auto taken = berth_->run(berth_->lifecycle().snapshot("demo", {}));
            ASSERT_TRUE(taken) << taken.error().line();
            snapshot = taken->record.id;
        },
        [&] { return berth_->run(berth_->lifecycle().restore(snapshot, {})); },
        [&] {
            expect_one();
            const auto again = berth_->run(berth_->lifecycle().restore(snapshot, {}));
            EXPECT_TRUE(again) << again.error().line();
            expect_one();
        });
}

TEST_F(DockerKilled, WhileItIsDestroyed)
{
    kill_at_each([&] { make_kept(); }, [&] { return berth_->run(berth_->lifecycle().destroy("demo")); },
                 [&] {
                     const auto left = berth_->run(berth_->lifecycle().find("demo"));
                     if (left) EXPECT_TRUE(berth_->run(berth_->lifecycle().destroy("demo")));
                     EXPECT_EQ(count_ours(), "0");
                 });
}

TEST_F(DockerKilled, WhileItMovesThereAndBack)
{
    kill_at_each(
        [&] {
            auto request = wish("demo");
            request.backend = "local";
            ASSERT_TRUE(acquire(std::move(request)));
            shell("demo", "echo kept > ~/note");
        },
        [&] { return berth_->run(berth_->lifecycle().move("demo", {.backend = "docker"})); },
        [&] { expect_one(); });
    kill_at_each([&] { make_kept(); },
                 [&] { return berth_->run(berth_->lifecycle().move("demo", {.backend = "local"})); },
                 [&] { expect_one(); });
}

TEST_F(DockerKilled, WhileACommandRuns)
{
    make_kept();
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"sh", "-c", "echo up; echo late > ~/late; sync ~/late; sleep 1000"};
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(record, exec)));
    shell("demo", "until [ -e ~/late ]; do sleep 0.05; done");
    engine().kill();
    if (!test::DockerEngine::is_far()) // there nobody but the engine reaches it
        EXPECT_EQ(shell("demo", "echo without it"), "without it\n");
    ASSERT_EQ(engine().start_again(), "");
    reopen();
    collect();
    auto* const where = *berth_->backend("docker");
    const auto ended =
        berth_->run(where->wait(Lifecycle::handle(record), exec.id, system_clock().steady() + 60s));
    ASSERT_TRUE(ended && *ended) << (ended ? "it runs" : ended.error().line());
    EXPECT_FALSE((*ended)->status.success()) << to_string((*ended)->status);
    EXPECT_EQ(shell("demo", "cat ~/note ~/late"), "kept\nlate\n");
    expect_one();
}

TEST_F(DockerKilled, StoppedInGoodOrderItIsTheSameToUs)
{
    make_kept();
    engine().kill(SIGTERM);
    const auto refused = berth_->run(berth_->lifecycle().use("demo"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unavailable) << refused.error().line();
    EXPECT_TRUE(berth_->run(berth_->lifecycle().find("demo"))) << "an outage is not an end";
    ASSERT_EQ(engine().start_again(), "");
    reopen();
    expect_one();
}

TEST_F(DockerKilled, WhileACommandIsStarted)
{
    if (!test::DockerEngine::is_far()) GTEST_SKIP() << "the keeper starts commands: BERTH_TEST_ENGINE=far";
    kill_at_each([&] { make_kept(); },
                 [&]() -> Status {
                     ExecSpec exec;
                     exec.argv = {"sh", "-c", "echo ran >> ~/ran"};
                     exec.timeout = 120s;
                     auto outcome = berth_->run(berth_->exec("demo", std::move(exec), {}));
                     if (!outcome) return std::unexpected(std::move(outcome).error());
                     if (outcome->status.success()) return {};
                     return fail(Code::Unavailable, "it ended with {}", to_string(outcome->status));
                 },
                 [&] {
                     expect_one();
                     EXPECT_THAT(shell("demo", "cat ~/ran 2>/dev/null || true"), testing::AnyOf("", "ran\n"));
                     const auto record = *berth_->run(berth_->lifecycle().find("demo"));
                     const auto execs =
                         berth_->run((*berth_->backend("docker"))->execs(Lifecycle::handle(record)));
                     ASSERT_TRUE(execs) << execs.error().line();
                     for (const auto& one : *execs) EXPECT_FALSE(one.running) << one.id;
                 });
}

} // namespace
} // namespace berth
