#include "backend/local/copy_layers.hpp"

#include <csignal>
#include <fstream>
#include <thread>

#include "layer_fixture.hpp"

#include "backend/local/layer_merge.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class CopyLayers : public Layers {
protected:
    /// With a private copy of a host directory at /c, which holds the file `host`.
    static SandboxSpec copying()
    {
        const std::string source = dir_ + "/source";
        fs::create_directories(source);
        std::ofstream(source + "/host") << "host\n";
        SandboxSpec out = spec();
        out.mounts.push_back({.source = source, .target = "/c", .mode = Mount::Mode::Copy});
        return out;
    }
};

TEST_F(CopyLayers, ACopyOfAHostDirectoryKeepsWhatWasWrittenInIt)
{
    const auto sandbox = make(copying());
    run(sandbox, "cd /c; echo mine > made; rm host; mkdir d; touch d/x");
    const auto owner = run(sandbox, "stat -c '%U %a' /c /c/made");
    const auto view = [](const SandboxHandle& of) { return run(of, "cd /c; find . | sort; cat made"); };
    const std::string kept = ".\n./d\n./d/x\n./made\nmine\n";
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 1s)));
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    EXPECT_EQ(view(sandbox), kept) << "stopped and started";
    const auto snapshot = take(sandbox);
    EXPECT_EQ(view(sandbox), kept) << "frozen";
    EXPECT_EQ(run(sandbox, "stat -c '%U %a' /c /c/made"), owner);
    ASSERT_EQ(::kill(record_of(sandbox).keeper.pid, SIGKILL), 0);
    while (run_task(backend_->inspect(sandbox))->state == State::Running) std::this_thread::sleep_for(5ms);
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    EXPECT_EQ(view(sandbox), kept) << "its keeper was killed";
    run(sandbox, "echo more > /c/made; rm -r /c/d");
    CreateRequest again{copying()};
    again.from = snapshot;
    const auto copy = make(again);
    EXPECT_EQ(view(copy), kept) << "made from the snapshot";
    EXPECT_EQ(run(copy, "stat -c '%U %a' /c /c/made"), owner);
    EXPECT_EQ(view(sandbox), ".\n./made\nmore\n");
    EXPECT_TRUE(fs::exists(dir_ + "/source/host"));
    EXPECT_FALSE(fs::exists(dir_ + "/source/made"));
}

TEST_F(CopyLayers, ACopyIsCopiedAndMergedWithTheOthers)
{
    const auto sandbox = make(copying());
    ExecSpec busy = shell("sleep 1000");
    if (can_freeze()) {
        run(sandbox, "echo 1 > /c/live");
        ASSERT_TRUE(run_task(backend_->exec(sandbox, busy)));
        const auto what = request();
        EXPECT_TRUE(take(sandbox, what).live_copy);
        CreateRequest again{copying()};
        again.from = source_of(what);
        EXPECT_EQ(run(make(again), "cat /c/live /c/host"), "1\nhost\n");
    }
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 0ms)));
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    for (std::size_t i = 0; i < kMergeFrom; ++i) {
        run(sandbox, fmt::format("rm -f /c/host; echo {} > /c/n{}; rm -f /c/n{}", i, i % 3, (i + 1) % 3));
        take(sandbox);
    }
    const auto before = run(sandbox, "cd /c; ls; cat n*");
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 0ms)));
    fs::remove_all(dir_ + "/snapshots");
    collect();
    EXPECT_EQ(record_of(sandbox).stack.size(), 1u);
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    EXPECT_EQ(run(sandbox, "cd /c; ls; cat n*"), before);
}

TEST_F(CopyLayers, ACopyStandsOnManyLayers)
{
    const auto sandbox = make(copying());
    run(sandbox, "echo top > /c/top");
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 0ms)));
    std::string part;
    for (const auto& entry : fs::directory_iterator(directory_of(sandbox) + "/fs"))
        if (entry.path().filename().string().starts_with('c')) part = entry.path().filename();
    ASSERT_FALSE(part.empty());
    auto record = record_of(sandbox);
    for (std::size_t i = 0; i < kMaxStack; ++i) {
        const auto id = make_layer_id();
        for (const auto& name : {std::string("u1"), std::string("u2"), part})
            fs::create_directories(fmt::format("{}/state/layer/{}/{}", dir_, id, name));
        std::ofstream(fmt::format("{}/state/layer/{}/{}/{}", dir_, id, part, i)) << i;
        record.stack.push_back(id);
    }
    const UniqueFd directory(::open(directory_of(sandbox).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(write_instance(directory.get(), record));
    const auto started = run_task(backend_->start(sandbox));
    ASSERT_TRUE(started) << started.error().line();
    EXPECT_EQ(run(sandbox, "ls /c | wc -l"), fmt::format("{}\n", kMaxStack + 2));
}

TEST_F(CopyLayers, AnotherMountIsNotShownOverWhatWasWrittenInACopy)
{
    const auto sandbox = make(copying());
    run(sandbox, "echo mine > /c/made");
    CreateRequest other{copying()};
    other.from = take(sandbox);
    fs::create_directories(dir_ + "/other");
    other.spec.mounts.front().source = dir_ + "/other";
    EXPECT_EQ(run(make(other), "ls /c"), "");
}

TEST_F(CopyLayers, NoCopyOfWhatTheStateDirectoryLiesIn)
{
    auto wanted = copying();
    wanted.mounts.front().source = dir_;
    const auto made = run_task(backend_->create(CreateRequest{wanted}));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::Unsupported);
    EXPECT_THAT(made.error().line(), HasSubstr("the state directory lies in " + dir_));
}

} // namespace
} // namespace berth::local
