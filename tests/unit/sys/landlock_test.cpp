#include "sys/landlock.hpp"

#include <fcntl.h>

#include <csignal>

#include <gtest/gtest.h>

#include "sys/child.hpp"
#include "sys/launch.hpp"
#include "temp_dir.hpp"

namespace berth::sys {
namespace {

/// The exit code of a shell script below a ruleset: everything may be read, `writable` also written.
int run_below(const std::string& writable, const std::string& script)
{
    const int abi = landlock::abi();
    StepList list;
    const auto all = landlock::reading() | landlock::writing(abi);
    const Slot rules = list.landlock_create(all, 0, landlock::scopes(abi));
    list.landlock_path(rules, "/", landlock::reading());
    list.landlock_path(rules, "/dev/null", landlock::reading() | landlock::kWriteFile);
    list.landlock_path(rules, writable, all);
    list.no_new_privs();
    list.landlock_apply(rules);
    list.exec_path({"/bin/sh"}, {"sh", "-c", script}, {"PATH=/usr/bin:/bin"});
    auto launched = launch(list, {});
    EXPECT_TRUE(launched) << launched.error().line();
    if (!launched) return -1;
    return Child::own(launched->pid, std::move(launched->pidfd)).wait()->shell_code();
}

#define NEEDS_LANDLOCK()                                                                                     \
    if (landlock::abi() == 0) GTEST_SKIP() << "no landlock in this kernel: boot with lsm=landlock,..."

TEST(Landlock, KnowsMoreWithEachAbi)
{
    EXPECT_EQ(landlock::writing(1) & landlock::kRefer, 0u);
    EXPECT_NE(landlock::writing(2) & landlock::kRefer, 0u);
    EXPECT_EQ(landlock::writing(2) & landlock::kTruncate, 0u);
    EXPECT_NE(landlock::writing(3) & landlock::kTruncate, 0u);
    EXPECT_EQ(landlock::scopes(5), 0u);
    EXPECT_EQ(landlock::scopes(6), landlock::kScopeAbstractUnix | landlock::kScopeSignal);
}

TEST(Landlock, ReadingAndWritingShareNothing)
{
    for (int abi = 1; abi <= 7; ++abi) EXPECT_EQ(landlock::reading() & landlock::writing(abi), 0u);
}

TEST(Landlock, HoldsWritesToTheirPlace)
{
    NEEDS_LANDLOCK();
    const TempDir dir;
    dir.make_dir("open");
    dir.make_dir("shut");
    EXPECT_EQ(run_below(dir / "open", "echo x > " + (dir / "open/f")), 0);
    EXPECT_NE(run_below(dir / "open", "(echo x > " + (dir / "shut/f") + ") 2>/dev/null"), 0);
    EXPECT_TRUE(dir.has("open/f"));
    EXPECT_FALSE(dir.has("shut/f"));
}

TEST(Landlock, LetsNothingBeRemovedOrMadeElsewhere)
{
    NEEDS_LANDLOCK();
    const TempDir dir;
    dir.make_dir("open");
    dir.make_dir("shut");
    dir.write("shut/kept", "x");
    const std::string shut = dir / "shut";
    for (const std::string& script :
         {"rm -f " + shut + "/kept", "mkdir " + shut + "/d", "ln -s x " + shut + "/l",
          "mkfifo " + shut + "/p", "mv " + shut + "/kept " + (dir / "open/taken")})
        EXPECT_NE(run_below(dir / "open", script + " 2>/dev/null"), 0) << script;
    EXPECT_TRUE(dir.has("shut/kept"));
    EXPECT_FALSE(dir.has("open/taken"));
}

TEST(Landlock, StillLetsEverythingBeRead)
{
    NEEDS_LANDLOCK();
    const TempDir dir;
    dir.write("file", "x");
    dir.make_dir("open");
    EXPECT_EQ(run_below(dir / "open", "test \"$(cat " + (dir / "file") + ")\" = x"), 0);
}

} // namespace
} // namespace berth::sys
