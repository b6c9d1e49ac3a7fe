// What is mounted stays what it was: an engine resolves a source again at each start, by its path.

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "docker/relayed_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

class DockerMounts : public Docker {
protected:
    void SetUp() override
    {
        Docker::SetUp();
        if (IsSkipped()) return;
        work_ = data_ + "-work";
        fs::create_directories(work_ + "/d");
        fs::create_directories(work_ + "/secret");
        std::ofstream(work_ + "/d/note") << "mine\n";
        std::ofstream(work_ + "/secret/note") << "the host's\n";
    }
    void TearDown() override
    {
        Docker::TearDown();
        if (!work_.empty()) fs::remove_all(work_);
    }
    static Mount mount(std::string source, std::string target, Mount::Mode mode = Mount::Mode::ReadWrite)
    {
        return {.source = std::move(source), .target = std::move(target), .mode = mode, .workspace = false};
    }
    Result<Acquired> acquire_with(std::vector<Mount> mounts)
    {
        auto request = wish("demo");
        request.spec.mounts = std::move(mounts);
        return acquire(std::move(request));
    }
    void make_with(std::vector<Mount> mounts)
    {
        const auto acquired = acquire_with(std::move(mounts));
        ASSERT_TRUE(acquired) << acquired.error().line();
    }
    Status stop() { return status_of(berth_->run(berth_->lifecycle().stop("demo", 0s))); }
    Status start() { return status_of(berth_->run(berth_->lifecycle().use("demo"))); }
    template <class T> static Status status_of(const Result<T>& result)
    {
        return result ? Status{} : Status(std::unexpected(result.error()));
    }
    static std::string state() { return command("docker inspect -f '{{.State.Status}}' " + ours()); }
    /// As somebody does who may write the directory above.
    void swap() const
    {
        fs::rename(work_ + "/d", work_ + "/d.old");
        fs::create_directory_symlink(work_ + "/secret", work_ + "/d");
    }
    void swap_back() const
    {
        fs::remove(work_ + "/d");
        fs::rename(work_ + "/d.old", work_ + "/d");
    }

    std::string work_;
};

TEST_F(DockerMounts, ALinkInPlaceOfASourceIsNotFollowedAtTheNextStart)
{
    make_with({mount(work_ + "/d", "/x")});
    EXPECT_EQ(shell("demo", "cat /x/note"), "mine\n");
    ASSERT_TRUE(stop());
    swap();
    const auto refused = start();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied);
    EXPECT_THAT(refused.error().line(), HasSubstr("mount /x: " + work_ + "/d is not what it was"));
    EXPECT_EQ(state(), "exited") << "the engine was not asked";
    swap_back();
    ASSERT_TRUE(start());
    EXPECT_EQ(shell("demo", "cat /x/note"), "mine\n");
}

TEST_F(DockerMounts, AnotherDirectoryOfTheSameNameIsNotShownAtTheNextStart)
{
    make_with({mount(work_ + "/d", "/x")});
    ASSERT_TRUE(stop());
    fs::rename(work_ + "/d", work_ + "/d.old");
    fs::rename(work_ + "/secret", work_ + "/d");
    const auto refused = start();
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().line(), HasSubstr("another directory has its name"));
}

TEST_F(DockerMounts, AFileThatAnEditorSavedIsShownAsItIsNow)
{
    make_with({mount(work_ + "/d/note", "/note", Mount::Mode::ReadOnly)});
    ASSERT_TRUE(stop());
    std::ofstream(work_ + "/d/new") << "edited\n";
    fs::rename(work_ + "/d/new", work_ + "/d/note");
    ASSERT_TRUE(start());
    EXPECT_EQ(shell("demo", "cat /note"), "edited\n");
}

TEST_F(DockerMounts, ALinkAboveASourceIsFollowedOnce)
{
    fs::create_directories(work_ + "/other/d");
    fs::create_directory_symlink(work_, work_ + "/link");
    make_with({mount(work_ + "/link/d", "/x")});
    ASSERT_TRUE(stop());
    fs::remove(work_ + "/link");
    fs::create_directory_symlink(work_ + "/other", work_ + "/link");
    ASSERT_TRUE(start());
    EXPECT_EQ(shell("demo", "cat /x/note"), "mine\n");
}

TEST_F(DockerMounts, NothingRunsInAContainerThatSomebodyElseStartedOnALink)
{
    make_with({mount(work_ + "/d", "/x")});
    ASSERT_TRUE(stop());
    swap();
    command("docker start " + ours());
    ExecSpec exec;
    exec.argv = {"cat", "/x/note"};
    const auto refused = berth_->run(berth_->exec("demo", exec, {}));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().line(), HasSubstr("is not what it was"));
    // Nor when the link has gone by the time it is looked at.
    swap_back();
    const auto still = berth_->run(berth_->exec("demo", exec, {}));
    ASSERT_FALSE(still);
    EXPECT_EQ(still.error().code, Code::Denied) << still.error().line();
    EXPECT_THAT(still.error().line(), HasSubstr("shows something else at /x"));
    ASSERT_TRUE(stop());
    ASSERT_TRUE(start());
    EXPECT_EQ(shell("demo", "cat /x/note"), "mine\n");
}

using DockerMountRaces = Relayed<DockerMounts>;

TEST_F(DockerMountRaces, ALinkPutInPlaceOfASourceAfterTheLookIsFoundBeforeAnythingRuns)
{
    make_with({mount(work_ + "/d", "/x")});
    ASSERT_TRUE(stop());
    relay_->before_changes([&](const std::string& line) {
        if (line.find("/start ") != std::string::npos) swap();
    });
    const auto refused = start();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
    EXPECT_THAT(command("docker inspect -f '{{.State.StartedAt}}|{{.State.ExitCode}}' " + ours()),
                HasSubstr("|137"))
        << "it was started, and killed";
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy("demo")));
    swap_back();
    EXPECT_FALSE(acquire_with({mount(work_ + "/d", "/x")})) << "nor is one made";
    EXPECT_THAT(ours(), IsEmpty());
    relay_->before_changes({});
}

TEST_F(DockerMounts, ASourceThatTheSandboxCouldReplaceIsRefused)
{
    for (const char* below : {"/d", "/d/note"}) {
        const auto refused = acquire_with({mount(work_, "/ws"), mount(work_ + below, "/x")});
        ASSERT_FALSE(refused) << below;
        EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
        EXPECT_THAT(refused.error().line(), HasSubstr("which the sandbox may write at /ws"));
    }
    EXPECT_THAT(ours(), IsEmpty());
    // What it may only read it cannot replace.
    make_with({mount(work_, "/ws", Mount::Mode::ReadOnly), mount(work_ + "/d", "/x")});
    EXPECT_EQ(shell("demo", "cat /ws/d/note /x/note"), "mine\nmine\n");
}

TEST_F(DockerMounts, TheSocketOfAnEngineIsNotReachedByTheDirectoryItLiesIn)
{
    for (const auto& source : {engine().directory(), engine().directory() + "/."}) {
        const auto refused = acquire_with({mount(source, "/eng", Mount::Mode::ReadOnly)});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
        EXPECT_THAT(refused.error().line(), HasSubstr("/sock, by which whoever reaches an engine is root"));
    }
    EXPECT_THAT(ours(), IsEmpty());
    make_with({mount(work_ + "/d", "/x")});
}

TEST_F(DockerMounts, AMountInAnotherNeedsAPlaceThatIsThere)
{
    for (const auto mode : {Mount::Mode::ReadOnly, Mount::Mode::ReadWrite}) {
        const auto refused =
            acquire_with({mount(work_ + "/d", "/x", mode), mount(work_ + "/secret", "/x/in")});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::Invalid) << refused.error().line();
        EXPECT_THAT(refused.error().line(), HasSubstr("mount /x/in lies in mount /x, and " + work_ +
                                                      "/d has no directory in to mount it on"));
        EXPECT_FALSE(fs::exists(work_ + "/d/in")) << "made in the host's directory";
    }
    EXPECT_THAT(ours(), IsEmpty());
    fs::create_directory(work_ + "/d/in");
    make_with({mount(work_ + "/d", "/x"), mount(work_ + "/secret", "/x/in")});
    EXPECT_EQ(shell("demo", "cat /x/note /x/in/note"), "mine\nthe host's\n");
}

} // namespace
} // namespace berth
