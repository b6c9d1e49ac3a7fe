#include "server/codex/sandbox_walk.hpp"

#include <gtest/gtest.h>

namespace berth::codex {
namespace {

using namespace std::string_literals;

WalkParams params()
{
    WalkParams out;
    out.path = "/ws";
    out.max_depth = 8;
    out.max_directories = 100;
    out.max_entries = 100;
    return out;
}

std::string line(const std::string& kind, const std::string& path) { return kind + '\0' + path + '\0'; }

std::vector<std::string> paths(const files::WalkResult& walked)
{
    std::vector<std::string> out;
    for (const auto& item : walked.items) out.push_back(item.path);
    return out;
}

const auto nothing_hidden = [](const std::string&) { return false; };

TEST(WalkFound, TellsNamesInOrderLevelByLevel)
{
    const auto text =
        line(".d", "b") + line(".f", "b/z") + line(".d", "b/y") + line(".f", "b/y/deep") + line(".f", "a");
    const auto walked = walk_found(params(), text, nothing_hidden);
    EXPECT_EQ(paths(walked),
              (std::vector<std::string>{"/ws/a", "/ws/b", "/ws/b/y", "/ws/b/z", "/ws/b/y/deep"}));
    EXPECT_FALSE(walked.truncated);
}

TEST(WalkFound, LeavesOutLinksToFilesAndWhatIsNeitherFileNorDirectory)
{
    const auto text = line("Lf", "link") + line(".l", "broken") + line(".p", "pipe") + line("Ld", "followed");
    EXPECT_EQ(paths(walk_found(params(), text, nothing_hidden)), std::vector<std::string>{"/ws/followed"});
}

TEST(WalkFound, EntersEachDirectoryOnceAndTellsEveryLink)
{
    const auto text = line(".d8:1", "a") + line(".d8:2", "a/b") + line(".f8:3", "a/f") + line("Ld8:1", "z") +
                      line(".d8:2", "z/b") + line(".f8:3", "z/f") + line("Ld", "a/b/l") + line("Ld", "z");
    EXPECT_EQ(paths(walk_found(params(), text, nothing_hidden)),
              (std::vector<std::string>{"/ws/a", "/ws/z", "/ws/a/b", "/ws/a/f", "/ws/a/b/l"}));
}

TEST(WalkFound, StopsAtEachBound)
{
    const auto text =
        line(".d", "a") + line(".d", "a/b") + line(".f", "a/b/c") + line(".d", ".h") + line(".f", ".h/x");
    auto few = params();
    few.max_entries = 1;
    EXPECT_EQ(paths(walk_found(few, text, nothing_hidden)), std::vector<std::string>{"/ws/.h"});
    EXPECT_TRUE(walk_found(few, text, nothing_hidden).truncated);
    auto flat = params();
    flat.max_depth = 0;
    EXPECT_EQ(paths(walk_found(flat, text, nothing_hidden)), (std::vector<std::string>{"/ws/.h", "/ws/a"}));
    auto pruned = params();
    pruned.prune_hidden = true;
    EXPECT_EQ(paths(walk_found(pruned, text, nothing_hidden)),
              (std::vector<std::string>{"/ws/.h", "/ws/a", "/ws/a/b", "/ws/a/b/c"}));
    auto one = params();
    one.max_directories = 1;
    EXPECT_TRUE(walk_found(one, text, nothing_hidden).truncated);
}

TEST(WalkFound, TakesNothingFromWhatASandboxMadeUp)
{
    // A record that is cut off, kinds nobody knows, names that are empty, a parent that was never told.
    const auto text = line("x", "a") + line("", "b") + line(".f", "") + line(".f", "never/told") + ".d\0cut"s;
    EXPECT_TRUE(paths(walk_found(params(), text, nothing_hidden)).empty());
    EXPECT_TRUE(paths(walk_found(params(), "\0\0\0\0"s, nothing_hidden)).empty());
    EXPECT_TRUE(paths(walk_found(params(), std::string(100, '/'), nothing_hidden)).empty());
}

TEST(WalkFound, DoesNotTellWhatOnlyStandsInForAName)
{
    const auto walked = walk_found(params(), line(".d", ".git") + line(".f", "a"),
                                   [](const std::string& path) { return path == "/ws/.git"; });
    EXPECT_EQ(paths(walked), std::vector<std::string>{"/ws/a"});
}

} // namespace
} // namespace berth::codex
