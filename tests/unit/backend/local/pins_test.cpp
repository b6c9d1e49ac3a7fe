// What is mounted stays what it was when the sandbox was made.

#include "local_fixture.hpp"

#include <fstream>

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class PinnedMounts : public LocalFixture {
protected:
    void SetUp() override
    {
        work_ = dir_ + "/work";
        for (const char* name : {"/a/d", "/b/d"}) {
            fs::create_directories(work_ + name);
            std::ofstream(work_ + name + "/note") << name << "\n";
        }
        for (fs::path at = work_ + "/a/d/note"; at != fs::path(dir_).parent_path(); at = at.parent_path())
            fs::permissions(at, fs::perms(0755));
    }
    void TearDown() override
    {
        LocalFixture::TearDown();
        fs::remove_all(work_);
    }
    static SandboxSpec showing(std::vector<Mount> mounts)
    {
        auto out = spec();
        out.mounts = std::move(mounts);
        return out;
    }
    Mount read_only(const std::string& below) const { return {.source = work_ + below, .target = "/d"}; }
    static void stop(const SandboxHandle& sandbox) { ASSERT_TRUE(run_task(backend_->stop(sandbox, 5s))); }

    std::string work_;
};

TEST_F(PinnedMounts, ALinkAboveASourceIsFollowedOnce)
{
    fs::create_directory_symlink("a", work_ + "/link");
    const auto sandbox = make(showing({read_only("/link/d")}));
    EXPECT_EQ(run(sandbox, "cat /d/note"), "/a/d\n");
    stop(sandbox);
    fs::remove(work_ + "/link");
    fs::create_directory_symlink("b", work_ + "/link");
    const auto started = run_task(backend_->start(sandbox));
    ASSERT_TRUE(started) << started.error().line();
    EXPECT_EQ(run(sandbox, "cat /d/note"), "/a/d\n");
    stop(sandbox);
    fs::remove(work_ + "/link");
    EXPECT_TRUE(run_task(backend_->start(sandbox))) << "it is needed once";
}

TEST_F(PinnedMounts, ALinkOrAnotherDirectoryInPlaceOfOneAboveASourceIsRefused)
{
    const auto sandbox = make(showing({read_only("/a/d")}));
    stop(sandbox);
    fs::rename(work_ + "/a", work_ + "/old");
    fs::create_directory_symlink("b", work_ + "/a");
    auto refused = run_task(backend_->start(sandbox));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("mount /d: " + work_ + "/a/d is not what it was"));
    fs::remove(work_ + "/a");
    fs::rename(work_ + "/b", work_ + "/a");
    refused = run_task(backend_->start(sandbox));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().line(), HasSubstr("another directory has its name"));
    fs::remove_all(work_ + "/a");
    fs::rename(work_ + "/old", work_ + "/a");
    EXPECT_TRUE(run_task(backend_->start(sandbox)));
}

TEST_F(PinnedMounts, AMountInAnotherNeedsAPlaceThatIsThere)
{
    auto inner = read_only("/b/d");
    inner.target = "/d/in";
    const auto refused = run_task(backend_->create(showing({read_only("/a/d"), inner})));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Invalid) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("has no directory in to mount it on"));
    fs::create_directory(work_ + "/a/d/in");
    EXPECT_EQ(run(make(showing({read_only("/a/d"), inner})), "cat /d/in/note"), "/b/d\n");
}

TEST_F(PinnedMounts, TheDirectoryOfAnEnginesSocketIsNotShown)
{
    std::ofstream(work_ + "/b/d/sock"); // what counts is where it lies
    ::setenv("DOCKER_HOST", ("unix://" + work_ + "/b/d/sock").c_str(), 1);
    const auto refused = run_task(backend_->create(showing({read_only("/b")})));
    ::unsetenv("DOCKER_HOST");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("engine is root of this machine"));
}

} // namespace
} // namespace berth::local
