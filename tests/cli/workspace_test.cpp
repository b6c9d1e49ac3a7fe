// Host directories and files inside: who may write, whose files they are afterwards, odd names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

/// A directory of the ordinary user 4321 when we are root (as a checkout is), else our own.
std::string workspace(const std::string& name = "work space")
{
    const std::string dir = Place::here().dir(name);
    std::ofstream(dir + "/file") << "content\n";
    if (is_root()) {
        EXPECT_EQ(::chown(dir.c_str(), 4321, 4322), 0);
        EXPECT_EQ(::chown((dir + "/file").c_str(), 4321, 4322), 0);
    }
    return dir;
}

struct stat status_of(const std::string& path)
{
    struct stat st{};
    EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
    return st;
}

TEST(Workspace, IsTheWorkingDirectoryAtItsOwnPath)
{
    const auto dir = workspace();
    EXPECT_EQ(shell({"--workspace", dir}, "pwd; cat file; stat -c %U file").out, dir + "\ncontent\nuser\n");
}

TEST(Workspace, WritesAreTheOwnersOnTheHost)
{
    const auto dir = workspace();
    const auto ended =
        shell({"--workspace", dir}, "echo new > made; echo more >> file; mkdir sub; chmod 700 sub");
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(contents(dir + "/made"), "new\n");
    EXPECT_EQ(contents(dir + "/file"), "content\nmore\n");
    for (const char* name : {"/made", "/file", "/sub"}) {
        EXPECT_EQ(status_of(dir + name).st_uid, is_root() ? 4321 : ::geteuid()) << name;
        EXPECT_EQ(status_of(dir + name).st_gid, is_root() ? 4322 : ::getegid()) << name;
    }
}

TEST(Workspace, OfRootInsideWritesNothingOfTheHostsRoot)
{
    BERTH_NEEDS_ROOT();
    const auto dir = workspace();
    const auto ended = shell({"--workspace", dir, "-u", "root"}, "echo x > made; echo $?");
    if (std::filesystem::exists(dir + "/made")) {
        EXPECT_NE(status_of(dir + "/made").st_uid, 0u);
    }
}

TEST(Workspace, ReadOnlyCannotBeWritten)
{
    const auto dir = workspace();
    const auto ended = shell({"--workspace", dir + ":ro"},
                             "cat file; echo x > made || echo refused; echo x > file || echo refused");
    EXPECT_EQ(ended.out, "content\nrefused\nrefused\n");
    EXPECT_EQ(contents(dir + "/file"), "content\n");
    EXPECT_FALSE(std::filesystem::exists(dir + "/made"));
}

TEST(Workspace, CopyIsWritableAndThrownAway)
{
    const auto dir = workspace();
    const auto ended = shell({"--workspace", dir + ":copy"},
                             "echo x > made && echo y > file && rm made && cat file && mkdir -p a/b");
    EXPECT_EQ(ended.out, "y\n") << ended.err;
    EXPECT_EQ(contents(dir + "/file"), "content\n");
    EXPECT_EQ(files_below(dir), std::vector<std::string>{"/file"});
}

TEST(Workspace, TwoCanBeGivenAndTheFirstIsTheWorkingDirectory)
{
    const auto one = workspace();
    const auto two = workspace();
    const auto ended = shell({"--workspace", one, "--workspace", two + ":ro"},
                             "pwd; cp '" + two + "/file' copied; touch '" + two + "/x' || echo refused");
    EXPECT_EQ(ended.out, one + "\nrefused\n");
    EXPECT_EQ(contents(one + "/copied"), "content\n");
}

TEST(Workspace, DotIsTheCurrentDirectory)
{
    const auto dir = workspace();
    const auto ended = run({.args = {"run", "--workspace", ".", "--", "sh", "-c", "pwd; echo x > here"},
                            .in_child = [&] { static_cast<void>(::chdir(dir.c_str())); }});
    EXPECT_EQ(ended.out, dir + "\n");
    EXPECT_EQ(contents(dir + "/here"), "x\n");
}

TEST(Workspace, ThroughASymlinkAboveItIsShownWhereItWasNamed)
{
    const auto real = workspace("real");
    const auto top = Place::here().dir("links");
    std::filesystem::create_directory_symlink(std::filesystem::path(real).parent_path(), top + "/link");
    const auto named = top + "/link/" + std::filesystem::path(real).filename().string();
    const auto ended = shell({"--workspace", named}, "pwd -P; echo x > through");
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, named + "\n");
    EXPECT_EQ(contents(real + "/through"), "x\n");
}

TEST(Workspace, TakesNamesOfEveryKind)
{
    for (const char* name : {"with space", "with,comma", "with:colon", "ünïcödé-文", "new\nline", "quote'\"",
                             "back\\slash", "-dash", "tab\there", "end:ro "}) {
        const auto dir = workspace(name);
        const auto ended = shell({"--workspace", dir}, "cat file && echo x > made");
        EXPECT_EQ(ended.out, "content\n") << name << ": " << ended.err;
        EXPECT_TRUE(std::filesystem::exists(dir + "/made")) << name;
        const auto copy = shell({"--workspace", dir + ":copy"}, "cat file && rm made && ls");
        EXPECT_EQ(copy.out, "content\nfile\n") << name << ": " << copy.err;
    }
}

TEST(Workspace, WithAPolicyProtectsNamesAndLeavesNoPlaceholder)
{
    const auto dir = workspace();
    const Traces before = traces();
    const auto ended = shell({"--workspace", dir, "--policy", "workspace-write"},
                             "echo ok > made; mkdir .git/x 2>/dev/null || echo refused; touch /usr/x "
                             "2>/dev/null || echo read-only");
    EXPECT_EQ(ended.out, "refused\nread-only\n") << ended.err;
    EXPECT_EQ(files_below(dir), (std::vector<std::string>{"/file", "/made"}));
    expect_same(before);
}

TEST(Workspace, ReadOnlyPolicyWritesNothing)
{
    const auto dir = workspace();
    const auto ended =
        shell({"--workspace", dir, "--policy", "read-only"}, "cat file; echo x > made || echo refused");
    EXPECT_EQ(ended.out, "content\nrefused\n") << ended.err;
    EXPECT_EQ(files_below(dir), std::vector<std::string>{"/file"});
}

TEST(Mount, ShowsADirectoryReadOnlyUnlessAsked)
{
    const auto dir = workspace();
    const auto ended =
        shell({"--mount", dir + ":/data"}, "cat /data/file; echo x > /data/made || echo refused");
    EXPECT_EQ(ended.out, "content\nrefused\n");
    EXPECT_EQ(shell({"--mount", dir + ":/deep/er/data:rw"}, "echo x > /deep/er/data/made").code, 0);
    EXPECT_EQ(contents(dir + "/made"), "x\n");
    EXPECT_EQ(shell({"--mount", dir + ":/data:copy"}, "rm /data/made; ls /data").out, "file\n");
    EXPECT_EQ(contents(dir + "/made"), "x\n");
}

TEST(Mount, ShowsAFile)
{
    const auto file = Place::here().file("single file", "bytes\n");
    EXPECT_EQ(shell({"--mount", file + ":/etc/one.conf"},
                    "cat /etc/one.conf; echo x > /etc/one.conf || echo refused")
                  .out,
              "bytes\nrefused\n");
    EXPECT_EQ(shell({"--mount", file + ":/opt/new/place:rw"}, "echo more >> /opt/new/place").code, 0);
    EXPECT_EQ(contents(file), "bytes\nmore\n");
    const auto copy = berth({"run", "--mount", file + ":/x:copy", "--", "true"});
    EXPECT_EQ(copy.code, 125);
    EXPECT_THAT(copy.err, HasSubstr("only a directory can be a copy"));
}

TEST(Mount, OverADirectoryOfTheTemplateHidesIt)
{
    const auto dir = workspace();
    EXPECT_EQ(shell({"--mount", dir + ":/usr/local"}, "ls /usr/local").out, "file\n");
}

TEST(Mount, OfRelativeSourceIsTakenFromHere)
{
    const auto dir = workspace();
    const auto ended = run({.args = {"run", "--mount", "file:/one", "--", "cat", "/one"},
                            .in_child = [&] { static_cast<void>(::chdir(dir.c_str())); }});
    EXPECT_EQ(ended.out, "content\n");
}

TEST(Mount, NeverGivesSetIdFilesPower)
{
    const auto dir = workspace();
    ASSERT_EQ(std::system(("cp /usr/bin/id '" + dir + "/id' && chmod 4755 '" + dir + "/id'").c_str()), 0);
    EXPECT_EQ(shell({"--mount", dir + ":/data:rw"}, "/data/id -u").out, "1000\n");
}

} // namespace
} // namespace berth::test
