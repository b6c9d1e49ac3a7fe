// The files of a sandbox, kept and brought back: what commands inside see after restore and fork.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/kept.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

class KeptFiles : public Kept {
protected:
    /// What a shell in the sandbox printed.
    static std::string inside(const std::string& ref, const std::string& script)
    {
        const auto ended = berth({"exec", ref, "--", "sh", "-c", script});
        EXPECT_EQ(ended.code, 0) << script << ": " << ended.err;
        return trimmed(ended.out);
    }
    static std::string take(const std::string& ref)
    {
        const auto ended = berth({"snapshot", ref, "--quiet"});
        EXPECT_EQ(ended.code, 0) << ended.err;
        EXPECT_EQ(ended.err, "");
        return trimmed(ended.out);
    }
};

TEST_F(KeptFiles, RestoreBringsTheFilesBackUnderTheSameId)
{
    const auto id = create();
    inside(id, "echo before > ~/note");
    const auto snapshot = take(id);
    inside(id, "echo after > ~/note");
    EXPECT_THAT(berth({"restore", "--dry-run", snapshot}).err, HasSubstr("would replace the files of " + id));
    EXPECT_EQ(inside(id, "cat ~/note"), "after");
    const auto ended = berth({"restore", snapshot});
    EXPECT_EQ(ended.out, id + "\n") << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("restored " + id + " from " + snapshot));
    EXPECT_EQ(inside(id, "cat ~/note"), "before");
    EXPECT_EQ(document({"inspect", id}).at("generation").as_int64(), 2);
}

TEST_F(KeptFiles, ACopyOfAWorkspaceKeepsWhatWasWrittenInIt)
{
    const auto dir = Place::here().dir("copied");
    std::ofstream(dir + "/file") << "content\n";
    for (const std::string_view root : {"host", "live"}) {
        const auto id = create(
            {"--workspace", dir + ":copy", "--template", std::string(root), "--policy", "workspace-write"});
        inside(id, "echo mine > made; rm file");
        ASSERT_EQ(berth({"stop", id}).code, 0);
        ASSERT_EQ(berth({"start", id}).code, 0);
        EXPECT_EQ(inside(id, "ls; cat made"), "made\nmine") << root;
        if (root == "live") continue;
        const auto told = berth({"snapshot", id});
        EXPECT_THAT(told.err, HasSubstr("what was changed in it"));
        EXPECT_EQ(inside(id, "ls"), "made");
        inside(id, "echo other > made");
        ASSERT_EQ(berth({"fork", id, "--name", "forked"}).code, 0);
        EXPECT_EQ(inside("forked", "ls; cat made"), "made\nother");
        ASSERT_EQ(berth({"restore", trimmed(told.out), "--new", "--name", "restored"}).code, 0);
        EXPECT_EQ(inside("restored", "ls; cat made"), "made\nmine");
    }
    EXPECT_TRUE(std::filesystem::exists(dir + "/file"));
    EXPECT_FALSE(std::filesystem::exists(dir + "/made"));
}

TEST_F(KeptFiles, RestoreMakesANewOneWhenAsked)
{
    const auto id = create();
    inside(id, "echo mine > ~/note");
    const auto snapshot = take(id);
    const auto told = document({"restore", snapshot, "--new", "--name", "second"});
    EXPECT_NE(told.at("id").as_string(), id);
    EXPECT_EQ(told.at("outcome").as_string(), "restored");
    EXPECT_EQ(told.at("snapshot").as_string(), snapshot);
    EXPECT_EQ(inside("second", "cat ~/note"), "mine");
    EXPECT_EQ(state(id), "running");
}

TEST_F(KeptFiles, RestoreOfADestroyedOneIsANewOne)
{
    const auto id = create();
    inside(id, "echo mine > ~/note");
    const auto snapshot = take(id);
    ASSERT_EQ(berth({"rm", id}).code, 0);
    const auto again = trimmed(berth({"restore", snapshot, "--key", "again"}).out);
    EXPECT_NE(again, id);
    EXPECT_EQ(inside("again", "cat ~/note"), "mine");
}

TEST_F(KeptFiles, ForkMakesSandboxesWithTheSameFiles)
{
    const auto id = create();
    inside(id, "echo mine > ~/note");
    const auto ended = berth({"fork", id, "-n", "3", "--name", "try"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    std::istringstream lines(ended.out);
    std::set<std::string> forks;
    for (std::string line; std::getline(lines, line);) forks.insert(line);
    EXPECT_EQ(forks.size(), 3u);
    EXPECT_FALSE(forks.contains(id));
    for (const char* name : {"try-1", "try-2", "try-3"})
        EXPECT_EQ(inside(name, "cat ~/note"), "mine") << name;
    inside("try-1", "echo changed > ~/note");
    EXPECT_EQ(inside("try-2", "cat ~/note"), "mine");
    EXPECT_EQ(inside(id, "cat ~/note"), "mine");
    EXPECT_EQ(berth({"snapshots", "-q"}).out, "") << "what a fork keeps on its way is not shown";
}

} // namespace
} // namespace berth::test
