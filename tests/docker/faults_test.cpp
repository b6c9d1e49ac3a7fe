// An engine that goes away in the middle of each operation, a full disk, and what is refused for want of
// rights: nothing is lost, nothing is left, and whoever tries again succeeds.

#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/docker/engine.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "docker/relayed_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DockerGoes : public Relayed<Docker> {
protected:
    /// Tries it with an engine that answers once, twice and so on, the last time with a few bytes; between
    /// two tries `whole` looks whether everything is as it should be.
    template <class Act> void try_until_done(const Act& act, const std::function<void()>& whole, long bytes)
    {
        constexpr long most = 100;
        for (long calls = 0; calls < most; ++calls) {
            SCOPED_TRACE(fmt::format("after {} calls and {} bytes", calls, bytes));
            reopen();
            relay_->allow(calls, bytes);
            const auto done = act();
            relay_->allow(test::CutRelay::kAll);
            if (done) {
                std::cout << fmt::format("done with {} calls\n", calls);
                EXPECT_GT(calls, 0);
                return;
            }
            EXPECT_EQ(done.error().code, Code::Unavailable) << done.error().line();
            reopen();
            whole();
            if (HasFailure()) return;
        }
        ADD_FAILURE() << "never done";
    }
};

TEST_F(DockerGoes, WhileASandboxIsMade)
{
    for (const long bytes : {0, 30, 400})
        try_until_done(
            [&] {
                auto made = acquire(wish("demo"));
                relay_->allow(test::CutRelay::kAll);
                if (made) EXPECT_TRUE(berth_->run(berth_->lifecycle().destroy("demo")));
                return made;
            },
            [&] {
                collect();
                EXPECT_THAT(ours(), IsEmpty());
                for (const auto& one : std::filesystem::directory_iterator(data_ + "/docker"))
                    EXPECT_THAT(one.path().filename().string(), testing::StartsWith("."));
            },
            bytes);
}

TEST_F(DockerGoes, WhileItIsStoppedAndStarted)
{
    made();
    shell("demo", "echo kept > ~/note");
    try_until_done([&] { return berth_->run(berth_->lifecycle().stop("demo", 100ms)); },
                   [&] { expect_kept(); }, 100);
    try_until_done(
        [&] {
            auto used = berth_->run(berth_->lifecycle().use("demo"));
            return used;
        },
        [&] {
            collect();
            EXPECT_EQ(command("docker ps -aq --filter label=berth.sandbox.id | wc -l"), "1");
        },
        100);
    expect_kept();
}

TEST_F(DockerGoes, WhileASnapshotIsTakenRestoredAndForked)
{
    made();
    shell("demo", "echo kept > ~/note");
    const auto payloads = [&] {
        std::size_t count = 0;
        std::error_code missing;
        for (const auto& one : std::filesystem::directory_iterator(data_ + "/snapshot", missing))
            count += one.path().filename().string().starts_with("snap_") ? 1 : 0;
        return count;
    };
    const auto before = snapshot_images();
    // The last connection brings the beginning of the image.
    try_until_done([&] { return berth_->run(berth_->lifecycle().snapshot("demo", {})); },
                   [&] {
                       expect_kept();
                       EXPECT_EQ(payloads(), 0u);
                   },
                   20'000);
    EXPECT_EQ(payloads(), 1u);
    EXPECT_THAT(before, HasSubstr(snapshot_images())) << "none of ours";
    const auto snapshot = berth_->store().snapshots({})->front().id;
    try_until_done([&] { return berth_->run(berth_->lifecycle().restore(snapshot, {})); },
                   [&] { expect_kept(); }, 200);
    expect_kept();
    try_until_done([&] { return berth_->run(berth_->lifecycle().fork("demo", {.count = 1})); },
                   [&] { expect_kept(); }, 200);
}

TEST_F(DockerGoes, WhileItIsDestroyed)
{
    made();
    shell("demo", "echo kept > ~/note");
    try_until_done([&] { return berth_->run(berth_->lifecycle().destroy("demo")); }, [&] {}, 100);
    EXPECT_THAT(ours(), IsEmpty());
}

TEST_F(Docker, AFullDiskWhileASnapshotIsSavedIsToldAndLeavesNothing)
{
    made();
    shell("demo", "echo kept > ~/note");
    const auto before = snapshot_images();
    const std::string snapshots = data_ + "/snapshot";
    std::filesystem::create_directories(snapshots);
    ASSERT_EQ(::mount("tmpfs", snapshots.c_str(), "tmpfs", 0, "size=1m,mode=700"), 0);
    const auto refused = berth_->run(berth_->lifecycle().snapshot("demo", {}));
    const bool empty =
        std::ranges::none_of(std::filesystem::directory_iterator(snapshots), [](const auto& one) {
            return one.path().filename().string().starts_with("snap_");
        });
    ::umount2(snapshots.c_str(), MNT_DETACH);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Exhausted) << refused.error().line();
    EXPECT_TRUE(empty);
    EXPECT_EQ(snapshot_images(), before);
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
}

TEST_F(Docker, AFullDiskOfTheEngineWhileAnImageIsLoadedIsToldAndLeavesNothing)
{
    made();
    shell("demo", "echo kept > ~/note");
    const auto taken = berth_->run(berth_->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    const auto before = snapshot_images();
    const std::string room = engine().directory() + "/data/tmp"; // where the engine lays an archive out
    ASSERT_EQ(::mount("tmpfs", room.c_str(), "tmpfs", 0, "size=1m,mode=700"), 0);
    const auto refused =
        berth_->run(berth_->lifecycle().restore(taken->record.id, {.as_new = true, .key = "again"}));
    ::umount2(room.c_str(), MNT_DETACH);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Exhausted) << refused.error().line();
    EXPECT_EQ(command("docker ps -aq --filter label=berth.sandbox.id | wc -l"), "1");
    EXPECT_EQ(snapshot_images(), before);
    const auto restored =
        berth_->run(berth_->lifecycle().restore(taken->record.id, {.as_new = true, .key = "again"}));
    ASSERT_TRUE(restored) << restored.error().line();
    EXPECT_EQ(shell("again", "cat ~/note"), "kept\n");
}

TEST_F(Docker, CommandsGoOnWhileTheEngineStandsStill)
{
    made();
    const auto text = read_file(engine().directory() + "/pid");
    ASSERT_TRUE(text) << text.error().line();
    const auto pid = static_cast<pid_t>(std::stol(*text));
    ASSERT_EQ(::kill(pid, SIGSTOP), 0);
    const ScopeExit wake([&] { ::kill(pid, SIGCONT); });
    EXPECT_EQ(shell("demo", "echo without it"), "without it\n");
}

TEST_F(Docker, ASocketThatIsNotOursToUseIsRefusedWithWhatHelps)
{
    const std::string host = std::getenv("DOCKER_HOST");
    const std::string socket = host.substr(std::string("unix://").size());
    std::filesystem::permissions(engine().directory(), std::filesystem::perms(0755));
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
        const docker::Engine far(docker::parse_engine(host));
        const auto answer = far.get("/info");
        const bool good = !answer && answer.error().code == Code::Denied &&
                          answer.error().line().find("join its group") != std::string::npos;
        if (!good) std::cerr << (answer ? "it answers" : answer.error().line()) << "\n";
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST_F(Docker, ACommandInAContainerThatJustDiedIsNoSuccess)
{
    made();
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    const auto running = [&] {
        ExecSpec exec;
        exec.id = make_exec_id(system_clock());
        exec.argv = {"sleep", "100"};
        return exec;
    };
    const auto before = running();
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(record, before)));
    command("docker kill " + ours());
    const auto late = berth_->run(berth_->lifecycle().exec(record, running()));
    ASSERT_FALSE(late);
    EXPECT_TRUE(late.error().code == Code::Conflict || late.error().code == Code::Unavailable)
        << late.error().line();
    auto* const where = *berth_->backend("docker");
    const auto ended =
        berth_->run(where->wait(Lifecycle::handle(record), before.id, system_clock().steady() + 60s));
    ASSERT_TRUE(ended && *ended) << (ended ? "it runs" : ended.error().line());
    EXPECT_FALSE((*ended)->status.success()) << to_string((*ended)->status);
    EXPECT_EQ(shell("demo", "echo again"), "again\n") << "who uses it starts it";
}

TEST_F(Docker, StartedAnewByItsEngineItIsTheSame)
{
    made();
    shell("demo", "echo kept > ~/note");
    command("docker restart -t 0 " + ours());
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
}

TEST_F(Docker, RootInsideCannotFillTheKeepersPlace)
{
    made();
    const auto said =
        shell("demo", "dd if=/dev/zero of=/.berth/x bs=64k count=16 2>&1 || rm /.berth/x", "root");
    EXPECT_THAT(said, HasSubstr("No space left on device"));
    EXPECT_EQ(shell("demo", "echo on"), "on\n");
}

} // namespace
} // namespace berth
