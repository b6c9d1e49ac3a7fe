#include "sys/child.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace berth::sys {
namespace {

using namespace std::chrono_literals;

template <class F> pid_t spawn(F body)
{
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        body();
        ::_exit(99);
    }
    return pid;
}

Child child_that(auto body) { return *Child::adopt(spawn(body)); }

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(Child, ReportsTheExitCodeAndRepeatsIt)
{
    auto child = child_that([] { ::_exit(7); });
    const auto status = child.wait();
    ASSERT_TRUE(status) << status.error().line();
    EXPECT_EQ(status->code(), 7);
    EXPECT_EQ(*child.wait(), *status);
    EXPECT_EQ(**child.try_wait(), *status);
}

TEST(Child, ReportsTheSignalThatEndedIt)
{
    auto child = child_that([] { ::pause(); });
    ASSERT_TRUE(child.signal(SIGUSR1));
    const auto status = child.wait();
    ASSERT_TRUE(status);
    EXPECT_EQ(status->signal(), SIGUSR1);
}

TEST(Child, IsPoliteFirst)
{
    auto child = child_that([] {
        ::signal(SIGTERM, [](int) { ::_exit(3); });
        for (;;) ::pause();
    });
    // The handler may not be installed yet; then SIGTERM itself ends it, which is as polite.
    const auto status = child.terminate(10s);
    ASSERT_TRUE(status);
    EXPECT_NE(status->signal(), SIGKILL);
}

TEST(Child, IsCertainInTheEnd)
{
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const UniqueFd in(ready[0]);
    UniqueFd out(ready[1]);
    auto child = child_that([&] {
        ::signal(SIGTERM, SIG_IGN);
        if (::write(ready[1], "r", 1) != 1) ::_exit(1);
        for (;;) ::pause();
    });
    char byte = 0;
    ASSERT_EQ(::read(in.get(), &byte, 1), 1);
    const auto status = child.terminate(20ms);
    ASSERT_TRUE(status);
    EXPECT_EQ(status->signal(), SIGKILL);
}

TEST(Child, WaitsNoLongerThanTold)
{
    auto child = child_that([] { ::pause(); });
    const auto running = child.wait_for(10ms);
    ASSERT_TRUE(running);
    EXPECT_FALSE(running->has_value());
    ASSERT_TRUE(child.signal(SIGKILL));
    const auto ended = child.wait_for(10s);
    ASSERT_TRUE(ended);
    EXPECT_TRUE(ended->has_value());
}

TEST(Child, KillsWhatItsOwnerForgot)
{
    pid_t pid = -1;
    {
        const auto child = child_that([] { ::pause(); });
        pid = child.pid();
        EXPECT_TRUE(exists(pid));
    }
    EXPECT_FALSE(exists(pid)); // reaped, not only killed: a zombie would still answer
}

TEST(Child, AssignmentEndsTheFormerOne)
{
    auto child = child_that([] { ::pause(); });
    const pid_t former = child.pid();
    child = child_that([] { ::_exit(4); });
    EXPECT_FALSE(exists(former));
    EXPECT_EQ(child.wait()->code(), 4);
}

TEST(Child, LetsGoWhenDetached)
{
    pid_t pid = -1;
    {
        auto child = child_that([] { ::pause(); });
        pid = child.detach();
    }
    EXPECT_TRUE(exists(pid));
    EXPECT_EQ(Child::adopt(pid)->terminate(10s)->signal(), SIGTERM);
}

TEST(Child, NeverSignalsAStranger)
{
    auto child = child_that([] { ::_exit(0); });
    ASSERT_TRUE(child.wait());
    const auto late = child.signal(SIGKILL);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::NotFound);
}

TEST(Child, DoesNotInventAStatusForSomebodyElsesProcess)
{
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const UniqueFd in(told[0]);
    UniqueFd out(told[1]);
    auto middle = child_that([&] {
        const pid_t pid = ::fork();
        if (pid == 0)
            for (;;) ::pause();
        ::_exit(::write(told[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    });
    pid_t grandchild = -1;
    ASSERT_EQ(::read(in.get(), &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
    ASSERT_TRUE(middle.wait());
    auto stranger = Child::adopt(grandchild); // its end kills it, although it cannot reap it
    ASSERT_TRUE(stranger);
    EXPECT_FALSE(stranger->try_wait());
}

} // namespace
} // namespace berth::sys
