#include <fcntl.h>

#include <algorithm>
#include <thread>

#include <gmock/gmock.h>

#include "backend_place.hpp"

namespace berth {

inline void PrintTo(const FileChange& change, std::ostream* out)
{
    *out << static_cast<int>(change.kind) << ":" << change.path;
}

} // namespace berth

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

using Kind = FileChange::Kind;

FileChange created(std::string path) { return {.kind = Kind::Created, .path = std::move(path)}; }
FileChange written(std::string path) { return {.kind = Kind::Written, .path = std::move(path)}; }
FileChange removed(std::string path) { return {.kind = Kind::Removed, .path = std::move(path)}; }
FileChange renamed(std::string path) { return {.kind = Kind::Renamed, .path = std::move(path)}; }

class WatchTest : public BackendPlace {
protected:
    using Changes = Result<std::vector<FileChange>>;
    static Changes look(const SandboxHandle& sandbox, const std::string& id, std::chrono::milliseconds time,
                        const std::string& path = "/home/user")
    {
        return run_task(backend_->watch(sandbox, id, {.path = path}, in(time)));
    }
    static void begin(const SandboxHandle& sandbox, const std::string& id,
                      const std::string& path = "/home/user")
    {
        const auto begun = look(sandbox, id, 0ms, path);
        ASSERT_TRUE(begun) << begun.error().line();
        EXPECT_TRUE(begun->empty());
    }
    /// Everything until a change at `last`.
    static std::vector<FileChange> until(const SandboxHandle& sandbox, const std::string& id,
                                         const FileChange& last, const std::string& path = "/home/user")
    {
        std::vector<FileChange> all;
        while (std::ranges::find(all, last) == all.end()) {
            const auto more = look(sandbox, id, 20s, path);
            EXPECT_TRUE(more) << more.error().line();
            if (!more || more->empty()) break;
            all.insert(all.end(), more->begin(), more->end());
        }
        return all;
    }
};

TEST_F(WatchTest, SeesChangesAtAnyDepth)
{
    const Made made;
    ASSERT_EQ(output_of(made.handle, "mkdir -p ~/a/b/c; echo 1 > ~/a/b/c/old"), "");
    begin(made.handle, "w");
    ASSERT_EQ(output_of(made.handle,
                        "cd ~/a/b/c; echo 1 > new; echo 2 >> old; mv new newer; rm old; chmod 600 newer"),
              "");
    const auto seen = until(made.handle, "w", {.kind = Kind::Attributes, .path = "a/b/c/newer"});
    EXPECT_THAT(seen, ElementsAre(created("a/b/c/new"), written("a/b/c/new"), written("a/b/c/old"),
                                  renamed("a/b/c/new"), created("a/b/c/newer"), removed("a/b/c/old"),
                                  FileChange{.kind = Kind::Attributes, .path = "a/b/c/newer"}));
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
}

TEST_F(WatchTest, SeesADirectoryThatIsMadeAndFilledAtOnce)
{
    const Made made;
    begin(made.handle, "w");
    ASSERT_EQ(
        output_of(
            made.handle,
            "cd ~; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p d$i/e/f; echo x > d$i/e/f/g; done; echo > end"),
        "");
    auto seen = until(made.handle, "w", created("end"));
    for (int i = 1; i <= 9; ++i)
        for (const char* below : {"", "/e", "/e/f", "/e/f/g"}) {
            const auto one = created(fmt::format("d{}{}", i, below));
            EXPECT_EQ(std::ranges::count(seen, one), 1) << one.path;
        }
    ASSERT_EQ(output_of(made.handle, "cd ~; echo y > d5/e/f/later"), "");
    EXPECT_THAT(until(made.handle, "w", created("d5/e/f/later")), Contains(created("d5/e/f/later")));
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
}

TEST_F(WatchTest, FollowsADirectoryThatIsRenamedOrLeaves)
{
    const Made made;
    ASSERT_EQ(output_of(made.handle, "mkdir -p ~/t/a/b /tmp/out"), "");
    begin(made.handle, "w", "/home/user/t");
    ASSERT_EQ(output_of(made.handle,
                        "cd ~/t; mv a z; echo > z/b/f; mv z ../gone; echo > ../gone/b/unseen; "
                        "mkdir -p ../new/x; echo > ../new/x/f; mv ../new .; echo > new/x/g; echo > end"),
              "");
    const auto seen = until(made.handle, "w", created("end"), "/home/user/t");
    EXPECT_THAT(seen,
                IsSupersetOf({renamed("a"), created("z"), created("z/b/f"), renamed("z"), created("new"),
                              created("new/x"), created("new/x/f"), created("new/x/g")}));
    for (const auto& change : seen) EXPECT_THAT(change.path, ::testing::Not(HasSubstr("unseen")));
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
}

TEST_F(WatchTest, SeveralWatchTheSameDirectory)
{
    const Made made;
    begin(made.handle, "one");
    begin(made.handle, "two");
    ASSERT_EQ(output_of(made.handle, "echo > ~/f"), "");
    EXPECT_THAT(until(made.handle, "one", created("f")), Contains(created("f")));
    EXPECT_TRUE(run_task(backend_->unwatch("one")));
    ASSERT_EQ(output_of(made.handle, "echo > ~/g"), "");
    EXPECT_THAT(until(made.handle, "two", created("g")), Contains(created("f")));
    EXPECT_EQ(look(made.handle, "two", 0ms, "/tmp").error().code, Code::Conflict);
    EXPECT_TRUE(run_task(backend_->unwatch("two")));
}

TEST_F(WatchTest, WaitsOnTheLoopAndWakes)
{
    const Made made;
    begin(made.handle, "w");
    const auto before = system_clock().steady();
    EXPECT_TRUE(look(made.handle, "w", 200ms)->empty());
    EXPECT_GE(system_clock().steady() - before, 200ms);
    std::thread writer([&] {
        std::this_thread::sleep_for(100ms);
        EXPECT_TRUE(run_task(backend_->write_file(made.handle, {.path = "/home/user/f"}, "x", std::nullopt)));
    });
    const auto woken = look(made.handle, "w", 20s);
    writer.join();
    ASSERT_TRUE(woken);
    EXPECT_FALSE(woken->empty());
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
}

TEST_F(WatchTest, DropsWhatNobodyFetchesAndSaysSo)
{
    const Made made;
    begin(made.handle, "w");
    const std::string script =
        "cd ~; python3 -c \"import os\nf=[os.open(n,os.O_CREAT|os.O_WRONLY) for n in 'ab']\n"
        "for i in range(40000): os.write(f[i%2],b'x')\"";
    ASSERT_EQ(output_of(made.handle, script), "");
    std::vector<FileChange> seen;
    for (auto more = look(made.handle, "w", 2s); more && !more->empty(); more = look(made.handle, "w", 200ms))
        seen.insert(seen.end(), more->begin(), more->end());
    EXPECT_LT(seen.size(), 40'000u);
    EXPECT_THAT(seen, Contains(FileChange{.kind = Kind::Overflow, .path = {}}));
    ASSERT_EQ(output_of(made.handle, "echo > ~/after"), "");
    EXPECT_THAT(until(made.handle, "w", created("after")), Contains(created("after"))) << "it goes on";
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
}

TEST_F(WatchTest, EndsWithItsSandbox)
{
    const auto handle = run_task(backend_->create(spec()));
    ASSERT_TRUE(handle);
    begin(*handle, "w");
    std::thread destroyer([&] {
        std::this_thread::sleep_for(100ms);
        EXPECT_TRUE(run_task(backend_->destroy(*handle)));
    });
    Changes last = look(*handle, "w", 20s);
    while (last && !last->empty()) last = look(*handle, "w", 20s);
    destroyer.join();
    ASSERT_FALSE(last);
    EXPECT_THAT(last.error().message, HasSubstr(handle->sandbox + " has ended"));
    EXPECT_EQ(look(*handle, "w", 0ms).error().code, Code::NotFound);
}

TEST_F(WatchTest, ResolvesInsideAndRefusesWhatIsNoDirectory)
{
    const Made made;
    ASSERT_EQ(output_of(made.handle,
                        "mkdir ~/real; ln -s /home/user/real ~/link; echo > ~/file; ln -s ../../../.. ~/up"),
              "");
    begin(made.handle, "w", "/home/user/link");
    ASSERT_EQ(output_of(made.handle, "echo > ~/real/f"), "");
    EXPECT_THAT(until(made.handle, "w", created("f"), "/home/user/link"), Contains(created("f")));
    EXPECT_TRUE(run_task(backend_->unwatch("w")));
    EXPECT_EQ(look(made.handle, "x", 0ms, "/home/user/none").error().code, Code::NotFound);
    EXPECT_FALSE(look(made.handle, "x", 0ms, "/home/user/file"));
    EXPECT_EQ(look(made.handle, "x", 0ms, "/proc").error().code, Code::Denied);
    begin(made.handle, "x", "/home/user/up/home/user");
    EXPECT_TRUE(run_task(backend_->unwatch("x")));
    begin(made.handle, "y", "/home/user/real");
    ASSERT_EQ(output_of(made.handle, "rm -r ~/real"), "");
    Changes last = look(made.handle, "y", 20s, "/home/user/real");
    while (last && !last->empty()) last = look(made.handle, "y", 20s, "/home/user/real");
    ASSERT_FALSE(last);
    EXPECT_THAT(last.error().message, HasSubstr("is gone"));
}

} // namespace
} // namespace berth::local
