#include "sys/userns.hpp"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/io.hpp"
#include "support/tsan.hpp"

namespace berth::sys {
namespace {

/// What a process reads from `path` inside the namespace.
std::string inside(int user_namespace, const std::string& path)
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC) != 0) return "pipe2 failed";
    const UniqueFd read(ends[0]);
    UniqueFd write(ends[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
        if (::setns(user_namespace, CLONE_NEWUSER) != 0) ::_exit(1);
        const auto text = read_file(path);
        ::_exit(text && write_all(write.get(), *text) ? 0 : 2);
    }
    write.reset();
    auto text = read_to_end(read.get(), 1_MiB, "a pipe");
    int status = -1;
    ::waitpid(pid, &status, 0);
    return status == 0 ? text.value_or("unread") : "exit status " + std::to_string(status);
}

std::string squeezed(std::string text)
{
    std::string out;
    for (const char c : text) {
        const bool blank = c == ' ' || c == '\t';
        if (blank && (out.empty() || out.back() == ' ' || out.back() == '\n')) continue;
        out += blank ? ' ' : c;
    }
    return out;
}

/// An ordinary user may map nobody but himself.
Result<UserNamespace> make_own(std::uint32_t seen_as)
{
    return UserNamespace::make({{.inside = seen_as, .outside = ::geteuid(), .count = 1}}, {});
}

#define NEEDS_USER_NAMESPACES(made)                                                                          \
    if (!(made) && ((made).error().sys.value() == EPERM || (made).error().sys.value() == EACCES ||           \
                    (made).error().sys.value() == ENOSPC))                                                   \
    GTEST_SKIP() << (made).error().line() << ": sysctl user.max_user_namespaces=15000 "                      \
                 << "kernel.unprivileged_userns_clone=1 and no AppArmor restriction"

TEST(UserNamespace, ShowsTheIdsThatWereMapped)
{
    BERTH_NEEDS_ONE_THREAD();
    const auto made = make_own(1234);
    NEEDS_USER_NAMESPACES(made);
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(squeezed(inside(made->get(), "/proc/self/uid_map")).substr(0, 5), "1234 ");
}

TEST(UserNamespace, IsAnotherOneThanOurs)
{
    const auto made = make_own(0);
    NEEDS_USER_NAMESPACES(made);
    ASSERT_TRUE(made) << made.error().line();
    struct stat ours{};
    struct stat theirs{};
    ASSERT_EQ(::stat("/proc/self/ns/user", &ours), 0);
    ASSERT_EQ(::fstat(made->get(), &theirs), 0);
    EXPECT_NE(ours.st_ino, theirs.st_ino);
    EXPECT_EQ(::ioctl(made->get(), NS_GET_NSTYPE), CLONE_NEWUSER);
}

TEST(UserNamespace, LeavesNoProcessBehind)
{
    auto made = make_own(0);
    NEEDS_USER_NAMESPACES(made);
    made->settle();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(UserNamespace, MapsARangeForRoot)
{
    BERTH_NEEDS_ONE_THREAD();
    if (::geteuid() != 0) GTEST_SKIP() << "maps of many ids need root: sudo ctest -R MapsARangeForRoot";
    const std::vector<IdMapping> map{{.inside = 0, .outside = 1'000'000, .count = 65'536}};
    const auto made = UserNamespace::make(map, map);
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(squeezed(inside(made->get(), "/proc/self/uid_map")), "0 1000000 65536\n");
    EXPECT_EQ(squeezed(inside(made->get(), "/proc/self/gid_map")), "0 1000000 65536\n");
}

TEST(UserNamespace, RefusesAMapThatOverlaps)
{
    const auto made = UserNamespace::make({{.inside = 0, .outside = ::geteuid(), .count = 1},
                                           {.inside = 0, .outside = ::geteuid(), .count = 1}},
                                          {});
    ASSERT_FALSE(made);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1) << "and the holder is gone";
}

} // namespace
} // namespace berth::sys
