#include "backend/local/execs_ahead.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <set>

#include "local_fixture.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

bool soon(const std::function<bool()>& holds)
{
    for (const auto until = system_clock().steady() + 10s; system_clock().steady() < until;) {
        if (holds()) return true;
        std::this_thread::sleep_for(5ms);
    }
    return holds();
}

TEST(ExecsAhead, EachIsMadeOnceForSeveralExecsAndNoMoreThanThereIsRoomFor)
{
    std::atomic<std::size_t> made = 0;
    std::atomic<std::size_t> dropped = 0;
    {
        ExecsAhead ahead([&](const auto&) { ++made; }, [&](const auto&) { ++dropped; });
        for (std::size_t i = 0; i < ExecsAhead::kMost + 10; ++i)
            for (int twice = 0; twice < 2; ++twice) ahead.begun("sbx_" + std::to_string(i));
        EXPECT_TRUE(soon([&] { return made == ExecsAhead::kMost; }));
        std::this_thread::sleep_for(50ms);
    }
    EXPECT_EQ(made, ExecsAhead::kMost) << "those that were worked with a moment ago keep theirs";
    EXPECT_EQ(dropped, 0u);
}

class AheadTest : public LocalFixture {
protected:
    static std::string logs(const SandboxHandle& sandbox)
    {
        return dir_ + "/state/sandbox/" + sandbox.native + "/exec";
    }
    static std::set<std::string> spares(const SandboxHandle& sandbox)
    {
        std::set<std::string> out;
        for (const auto& one : fs::directory_iterator(logs(sandbox)))
            if (const auto name = one.path().filename().string(); name.starts_with(".spare-"))
                out.insert(name);
        return out;
    }
    static ino_t inode(const std::string& path)
    {
        struct stat about{};
        EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
        return about.st_ino;
    }
    static void run(Backend& backend, const SandboxHandle& sandbox, const ExecSpec& exec)
    {
        ASSERT_TRUE(run_task(backend.exec(sandbox, exec)));
        const auto outcome = run_task(backend.follow(sandbox, exec, {}));
        ASSERT_TRUE(outcome) << outcome.error().line();
    }
};

TEST_F(AheadTest, TheThirdExecFindsItsFilesMade)
{
    const auto sandbox = *run_task(backend_->create(spec()));
    run(*backend_, sandbox, shell("true"));
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(spares(sandbox).empty()) << "of one exec nothing follows";
    run(*backend_, sandbox, shell("true"));
    ASSERT_TRUE(soon([&] { return spares(sandbox).size() == 1; }));
    const auto made = inode(logs(sandbox) + "/" + *spares(sandbox).begin());
    const auto third = shell("true");
    run(*backend_, sandbox, third);
    EXPECT_EQ(inode(logs(sandbox) + "/" + third.id), made);
}

TEST_F(AheadTest, WhoLetsGoOfASandboxLeavesNothingThatWasMadeAhead)
{
    auto other = open_backend();
    const auto sandbox = *run_task(other->create(spec()));
    for (int i = 0; i < 2; ++i) run(*other, sandbox, shell("true"));
    ASSERT_TRUE(soon([&] { return !spares(sandbox).empty(); }));
    other.reset();
    EXPECT_TRUE(spares(sandbox).empty());
}

TEST_F(AheadTest, WhatADeadProcessMadeIsRemovedByTheNext)
{
    const auto sandbox = *run_task(backend_->create(spec()));
    const pid_t gone = ::fork();
    if (gone == 0) ::_exit(0);
    ::waitpid(gone, nullptr, 0);
    const std::string left = logs(sandbox) + "/.spare-" + std::to_string(gone) + "-0";
    fs::create_directory(left);
    const std::string living = logs(sandbox) + "/.spare-1-0";
    fs::create_directory(living);
    for (int i = 0; i < 2; ++i) run(*backend_, sandbox, shell("true"));
    EXPECT_TRUE(soon([&] { return !fs::exists(left); }));
    EXPECT_TRUE(fs::exists(living));
}

TEST_F(AheadTest, WhatSomebodyTookAwayIsMadeAgain)
{
    const auto sandbox = *run_task(backend_->create(spec()));
    for (int i = 0; i < 2; ++i) run(*backend_, sandbox, shell("true"));
    ASSERT_TRUE(soon([&] { return !spares(sandbox).empty(); }));
    for (const auto& name : spares(sandbox)) fs::remove_all(logs(sandbox) + "/" + name);
    run(*backend_, sandbox, shell("true"));
}

TEST_F(AheadTest, AStopByAnotherProcessTakesItAway)
{
    const auto sandbox = *run_task(backend_->create(spec()));
    for (int i = 0; i < 2; ++i) run(*backend_, sandbox, shell("true"));
    ASSERT_TRUE(soon([&] { return !spares(sandbox).empty(); }));
    auto other = open_backend();
    ASSERT_TRUE(run_task(other->stop(sandbox, 1s)));
    EXPECT_TRUE(spares(sandbox).empty());
    ASSERT_TRUE(run_task(other->start(sandbox)));
    run(*backend_, sandbox, shell("true"));
}

} // namespace
} // namespace berth::local
