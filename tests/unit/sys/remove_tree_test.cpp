#include "sys/remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <memory>
#include <thread>

#include "temp_dir.hpp"

namespace berth::sys {
namespace {

TEST(RemoveTree, RemovesEveryKindOfEntry)
{
    const TempDir dir;
    dir.make_dir("t");
    dir.make_dir("t/empty");
    dir.make_dir("t/d");
    dir.write("t/d/file", "x");
    dir.link("/", "t/d/root");
    dir.link("nowhere", "t/d/dangling");
    ASSERT_EQ(::mkfifo((dir / "t/d/fifo").c_str(), 0600), 0);
    const auto gone = remove_tree(dir.fd(), "t");
    ASSERT_TRUE(gone) << gone.error().line();
    EXPECT_FALSE(dir.has("t"));
}

TEST(RemoveTree, AlreadyGoneIsSuccess)
{
    const TempDir dir;
    EXPECT_TRUE(remove_tree(dir.fd(), "nothing"));
}

TEST(RemoveTree, RemovesTheLinkAndNotWhatItLeadsTo)
{
    const TempDir dir;
    dir.make_dir("kept");
    dir.write("kept/file", "x");
    dir.link("kept", "link");
    dir.make_dir("t");
    dir.link("../kept", "t/up");
    dir.link(dir / "kept", "t/absolute");
    ASSERT_TRUE(remove_tree(dir.fd(), "link"));
    ASSERT_TRUE(remove_tree(dir.fd(), "t"));
    EXPECT_FALSE(dir.has("link"));
    EXPECT_TRUE(dir.has("kept/file"));
}

TEST(RemoveTree, TakesOneNameOnly)
{
    const TempDir dir;
    dir.make_dir("a");
    dir.make_dir("a/b");
    for (const char* bad : {"", ".", "..", "a/b", "/", "a/"}) {
        const auto refused = remove_tree(dir.fd(), bad);
        ASSERT_FALSE(refused) << bad;
        EXPECT_EQ(refused.error().code, Code::Invalid) << bad;
    }
    EXPECT_TRUE(dir.has("a/b"));
}

TEST(RemoveTree, OpensItsOwnClosedDirectories)
{
    const TempDir dir;
    dir.make_dir("t");
    dir.make_dir("t/work");
    dir.make_dir("t/work/work");
    dir.write("t/work/work/f", "x");
    dir.make_dir("t/readonly");
    dir.write("t/readonly/f", "x");
    ASSERT_EQ(::chmod((dir / "t/work/work").c_str(), 0), 0);
    ASSERT_EQ(::chmod((dir / "t/readonly").c_str(), 0555), 0);
    ASSERT_EQ(::chmod((dir / "t").c_str(), 0), 0);
    const auto gone = remove_tree(dir.fd(), "t");
    EXPECT_TRUE(gone) << gone.error().line();
    EXPECT_FALSE(dir.has("t"));
}

TEST(RemoveTree, TakesAnyDepthWithFewDescriptors)
{
    // In memory where possible: a disk mounted with `discard` waits for each directory it frees.
    const TempDir dir(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    dir.make_dir("t");
    UniqueFd at(::openat(dir.fd(), "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string name(8, 'd'); // 10 000 levels are 90 000 bytes of path
    for (int i = 0; i < 10'000; ++i) {
        ASSERT_EQ(::mkdirat(at.get(), name.c_str(), i % 100 == 99 ? 0500 : 0700), 0);
        if (i % 100 == 50) ASSERT_EQ(::mkdirat(at.get(), "side", 0), 0);
        UniqueFd next(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ASSERT_TRUE(next);
        if (i % 100 == 99) ASSERT_EQ(::fchmod(next.get(), 0700), 0);
        at = std::move(next);
    }
    at.reset();
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit few{.rlim_cur = 100, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto gone = remove_tree(dir.fd(), "t");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_TRUE(gone) << gone.error().line();
    EXPECT_FALSE(dir.has("t"));
}

TEST(RemoveTree, IsNotDivertedByARenamer)
{
    const TempDir dir;
    dir.make_dir("outside");
    dir.make_dir("outside/precious");
    dir.write("outside/precious/file", "x");
    for (int round = 0; round < 200; ++round) {
        dir.make_dir("t");
        dir.make_dir("t/a");
        dir.make_dir("t/a/b");
        dir.write("t/a/b/f", "x");
        std::atomic<bool> stop{false};
        std::thread hostile([&] {
            // Swaps directories for links to what must survive, and back, as fast as it can.
            const UniqueFd t(::openat(dir.fd(), "t", O_PATH | O_DIRECTORY | O_CLOEXEC));
            while (!stop) {
                static_cast<void>(::symlinkat("../outside", t.get(), "link"));
                ::renameat2(t.get(), "a", t.get(), "link", RENAME_EXCHANGE);
                static_cast<void>(::symlinkat("../../outside/precious", t.get(), "a/link"));
                ::renameat2(t.get(), "a/b", t.get(), "a/link", RENAME_EXCHANGE);
                ::renameat2(t.get(), "a", t.get(), "link", RENAME_EXCHANGE);
            }
        });
        static_cast<void>(remove_tree(dir.fd(), "t")); // may fail while somebody fills it
        stop = true;
        hostile.join();
        ASSERT_TRUE(dir.has("outside/precious/file")) << "round " << round;
        const auto gone = remove_tree(dir.fd(), "t");
        ASSERT_TRUE(gone) << gone.error().line();
        ASSERT_FALSE(dir.has("t"));
    }
}

TEST(RemoveTree, NamesWhatItCouldNotRemoveAndGoesOn)
{
    const TempDir dir;
    dir.make_dir("t");
    dir.make_dir("t/d");
    dir.write("t/d/fixed", "x");
    dir.write("t/d/other", "x");
    dir.write("t/more", "x");
    const UniqueFd fixed(::open((dir / "t/d/fixed").c_str(), O_RDONLY | O_CLOEXEC));
    int flags = FS_IMMUTABLE_FL;
    if (::ioctl(fixed.get(), FS_IOC_SETFLAGS, &flags) != 0)
        GTEST_SKIP() << "cannot make a file immutable here; run as root with TMPDIR on ext4, xfs, btrfs or "
                        "tmpfs (6.6)";
    const auto refused = remove_tree(dir.fd(), "t");
    flags = 0;
    ASSERT_EQ(::ioctl(fixed.get(), FS_IOC_SETFLAGS, &flags), 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied);
    EXPECT_NE(refused.error().message.find("immutable t/d/fixed"), std::string::npos)
        << refused.error().message;
    EXPECT_FALSE(dir.has("t/d/other"));
    EXPECT_FALSE(dir.has("t/more"));
    EXPECT_TRUE(remove_tree(dir.fd(), "t"));
}

TEST(RemoveTree, StaysOutOfOtherMounts)
{
    const TempDir dir;
    dir.make_dir("t");
    dir.make_dir("t/mounted");
    dir.make_dir("t/z");
    dir.make_dir("precious");
    dir.write("precious/file", "x");
    const pid_t pid = ::fork();
    if (pid == 0) { // a mount namespace of its own: 0 right, 1 wrong, 77 cannot be tried
        const int uid = static_cast<int>(::getuid());
        if (uid != 0) {
            if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(77);
        } else if (::unshare(CLONE_NEWNS) != 0) {
            ::_exit(77);
        }
        if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
        if (::mount((dir / "precious").c_str(), (dir / "t/mounted").c_str(), nullptr, MS_BIND, nullptr) != 0)
            ::_exit(77);
        const UniqueFd inside(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto refused = remove_tree(inside.get(), "t");
        const bool right = !refused && refused.error().code == Code::Conflict &&
                           refused.error().message.find("t/mounted is a mount point") != std::string::npos &&
                           dir.has("precious/file") && !dir.has("t/z");
        ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 77)
        GTEST_SKIP() << "no mount namespace can be made here; enable with: sudo unit_sys";
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(dir.has("precious/file"));
}

TEST(Trash, TakesATreeInOneStepAndIsEmptiedLater)
{
    const TempDir dir;
    dir.make_dir("trash");
    const UniqueFd trash(::openat(dir.fd(), "trash", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 3; ++i) {
        dir.make_dir("state");
        dir.make_dir("state/work");
        dir.write("state/work/f", "x");
        ASSERT_EQ(::chmod((dir / "state").c_str(), 0), 0);
        const auto moved = move_to_trash(dir.fd(), "state", trash.get());
        ASSERT_TRUE(moved) << moved.error().line();
        EXPECT_FALSE(dir.has("state"));
    }
    EXPECT_TRUE(move_to_trash(dir.fd(), "state", trash.get())) << "already gone is success";
    const auto emptied = empty_trash(trash.get());
    ASSERT_TRUE(emptied) << emptied.error().line();
    EXPECT_EQ(::rmdir((dir / "trash").c_str()), 0) << "something was left";
}

TEST(Trash, MayBeEmptiedByTwoAtOnce)
{
    const TempDir dir;
    dir.make_dir("trash");
    const UniqueFd trash(::openat(dir.fd(), "trash", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 200; ++i) {
        const std::string name = "trash/" + std::to_string(i);
        dir.make_dir(name);
        dir.make_dir(name + "/d");
        dir.write(name + "/d/f", "x");
    }
    Status other;
    std::thread second([&] { other = empty_trash(trash.get()); });
    const auto mine = empty_trash(trash.get());
    second.join();
    EXPECT_TRUE(mine) << mine.error().line();
    EXPECT_TRUE(other) << other.error().line();
    EXPECT_EQ(::rmdir((dir / "trash").c_str()), 0);
}

} // namespace
} // namespace berth::sys
