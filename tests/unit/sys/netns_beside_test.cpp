#include "sys/netns_beside.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "sys/caps.hpp"
#include "sys/child.hpp"
#include "sys/launch.hpp"

namespace berth::sys {
namespace {

#define NEEDS_ROOT()                                                                                         \
    if (!has_cap(CAP_SYS_ADMIN))                                                                             \
    GTEST_SKIP() << "network namespaces outside of a user namespace need root: sudo ctest -R Beside"

/// A list that enters what `maker` makes and then runs `script`.
StepList entering(int maker, int ready, const std::string& script)
{
    StepList list;
    list.say("entering the network namespace");
    list.enter_beside(list.borrow(maker), list.borrow(ready));
    list.exec_path({"/bin/sh"}, {"sh", "-c", script}, {});
    return list;
}

std::string our_network()
{
    char name[64]{};
    const auto n = ::readlink("/proc/thread-self/ns/net", &name[0], sizeof name - 1);
    return {&name[0], static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

/// A maker that does nothing, and then nothing any more.
Launched somebody(const char* program)
{
    StepList list;
    list.exec_path({"/bin/sh"}, {"sh", "-c", program}, {});
    auto launched = launch(list, {});
    EXPECT_TRUE(launched) << launched.error().line();
    return *std::move(launched);
}

UniqueFd event(std::uint64_t told)
{
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
    if (told != 0) EXPECT_EQ(::write(fd.get(), &told, sizeof told), static_cast<ssize_t>(sizeof told));
    return fd;
}

TEST(NetNamespaceBeside, IsEnteredWithItsLoopbackUpAndItsLowPortsOpen)
{
    NEEDS_ROOT();
    const auto before = our_network();
    auto made = NetNamespaceBeside::begin();
    ASSERT_TRUE(made) << made.error().line();
    auto list = entering(made->maker(), made->ready(),
                         "test \"$(readlink /proc/self/ns/net)\" != '" + before +
                             "' && grep -qx 0 /proc/sys/net/ipv4/ip_unprivileged_port_start && "
                             "grep -q 127.0.0.1 /proc/net/fib_trie");
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    made->settle();
    auto child = Child::own(launched->pid, std::move(launched->pidfd));
    const auto status = child.wait();
    ASSERT_TRUE(status);
    EXPECT_TRUE(status->success()) << to_string(*status);
    EXPECT_EQ(our_network(), before);
}

TEST(NetNamespaceBeside, LeavesNoProcessWhenNobodyWantsIt)
{
    NEEDS_ROOT();
    UniqueFd maker;
    {
        const auto made = NetNamespaceBeside::begin();
        ASSERT_TRUE(made) << made.error().line();
        maker.reset(::fcntl(made->maker(), F_DUPFD_CLOEXEC, 3));
    }
    EXPECT_LT(::syscall(SYS_pidfd_send_signal, maker.get(), 0, nullptr, 0), 0);
    EXPECT_EQ(errno, ESRCH);
}

std::size_t open_descriptors()
{
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(NetNamespaceBeside, LeavesNoDescriptorWhereverItIsStopped)
{
    NEEDS_ROOT();
    const auto before = open_descriptors();
    for (int i = 0; i < 100; ++i) {
        const auto made = NetNamespaceBeside::begin();
        ASSERT_TRUE(made) << made.error().line();
        // A little later each time, and the last ones when it has long been ready.
        for (volatile int pause = 0; pause < i * 5000; pause = pause + 1) {
        }
    }
    EXPECT_EQ(open_descriptors(), before);
}

TEST(NetNamespaceBeside, WhatFailedIsToldToWhoeverWaits)
{
    auto maker = somebody("read x");
    const auto ready = event(1 + ENOSPC);
    auto list = entering(maker.pidfd.get(), ready.get(), "exit 0");
    const auto launched = launch(list, {});
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().sys.value(), ENOSPC);
    EXPECT_TRUE(launched.error().message.starts_with("entering the network namespace"));
    const auto gone = Child::own(maker.pid, std::move(maker.pidfd)); // killed and reaped with this test
}

TEST(NetNamespaceBeside, NobodyWaitsForADeadMaker)
{
    auto maker = somebody("exit 0");
    siginfo_t told{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(maker.pid), &told, WEXITED | WNOWAIT), 0);
    const auto ready = event(0);
    auto list = entering(maker.pidfd.get(), ready.get(), "exit 0");
    const auto launched = launch(list, {});
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().sys.value(), ECHILD);
    const auto gone = Child::own(maker.pid, std::move(maker.pidfd));
}

TEST(NetNamespaceBeside, AStepWithoutItsDescriptorsIsRefused)
{
    StepList list;
    list.enter_beside(list.empty(), Slot{});
    const auto decoded = StepList::decode(list.encode(), {});
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, Code::Invalid);
}

} // namespace
} // namespace berth::sys
