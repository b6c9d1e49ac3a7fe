#include "sys/pty.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sys/child.hpp"

namespace berth::sys {
namespace {

tcflag_t local_flags(int fd)
{
    termios mode{};
    EXPECT_EQ(::tcgetattr(fd, &mode), 0);
    return mode.c_lflag;
}
bool is_raw(int fd) { return (local_flags(fd) & (ICANON | ECHO | ISIG)) == 0; }

TEST(Pty, CarriesItsWindowSize)
{
    const auto pty = open_pty({.rows = 50, .columns = 132});
    ASSERT_TRUE(pty) << pty.error().line();
    EXPECT_EQ(*window_size(pty->slave.get()), (WindowSize{.rows = 50, .columns = 132}));
    ASSERT_TRUE(set_window_size(pty->master.get(), {.rows = 10, .columns = 20}));
    EXPECT_EQ(*window_size(pty->slave.get()), (WindowSize{.rows = 10, .columns = 20}));
}

TEST(Pty, PassesBytesBothWays)
{
    const auto pty = open_pty();
    ASSERT_TRUE(pty);
    char buffer[16] = {};
    ASSERT_EQ(::write(pty->master.get(), "in\n", 3), 3);
    EXPECT_EQ(::read(pty->slave.get(), buffer, sizeof buffer), 3);
}

TEST(Pty, WhatIsNoTerminalHasNoSize)
{
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const UniqueFd in(ends[0]), out(ends[1]);
    EXPECT_FALSE(window_size(in.get()));
    EXPECT_FALSE(RawTerminal::enter(in.get()));
}

TEST(RawTerminal, RestoresTheModeAndTheHandlers)
{
    const auto pty = open_pty();
    ASSERT_TRUE(pty);
    const auto before = local_flags(pty->slave.get());
    struct sigaction term_before{}, term_after{};
    ::sigaction(SIGTERM, nullptr, &term_before);
    {
        auto raw = RawTerminal::enter(pty->slave.get());
        ASSERT_TRUE(raw) << raw.error().line();
        EXPECT_TRUE(is_raw(pty->slave.get()));
        const auto second = RawTerminal::enter(pty->slave.get());
        ASSERT_FALSE(second);
        EXPECT_EQ(second.error().code, Code::Conflict);
    }
    EXPECT_EQ(local_flags(pty->slave.get()), before);
    ::sigaction(SIGTERM, nullptr, &term_after);
    EXPECT_EQ(term_after.sa_handler, term_before.sa_handler);
    EXPECT_TRUE(RawTerminal::enter(pty->slave.get())); // free again
}

/// A process on a terminal of its own that goes raw and then ends by `signo`.
void expect_restored_after(int signo, bool from_background)
{
    const auto pty = open_pty();
    ASSERT_TRUE(pty);
    const auto before = local_flags(pty->master.get());
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const UniqueFd in(ready[0]);
    UniqueFd out(ready[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::setsid();
        ::ioctl(pty->slave.get(), TIOCSCTTY, 0);
        ::signal(signo, SIG_DFL); // a sanitizer has a handler for faults
        const auto raw = RawTerminal::enter(pty->slave.get());
        if (from_background) {
            const pid_t helper = ::fork(); // takes the foreground away from us
            if (helper == 0) {
                ::setpgid(0, 0);
                ::signal(SIGTTOU, SIG_IGN);
                ::tcsetpgrp(pty->slave.get(), ::getpid());
                ::_exit(0);
            }
            ::waitpid(helper, nullptr, 0);
        }
        if (!raw || ::write(ready[1], "r", 1) != 1) ::_exit(1);
        for (;;) ::pause();
    }
    auto child = Child::adopt(pid);
    ASSERT_TRUE(child);
    char byte = 0;
    ASSERT_EQ(::read(in.get(), &byte, 1), 1);
    EXPECT_TRUE(is_raw(pty->master.get()));
    ASSERT_TRUE(child->signal(signo));
    const auto status = child->wait_for(std::chrono::seconds(10));
    ASSERT_TRUE(status && *status) << "stopped instead of ended";
    EXPECT_EQ((*status)->signal(), signo); // and the truth about the end is kept
    EXPECT_EQ(local_flags(pty->master.get()), before);
}

TEST(RawTerminal, RestoresTheModeWhenTerminated) { expect_restored_after(SIGTERM, false); }
TEST(RawTerminal, RestoresTheModeOnAFault) { expect_restored_after(SIGSEGV, false); }
TEST(RawTerminal, RestoresTheModeOnHangup) { expect_restored_after(SIGHUP, false); }
TEST(RawTerminal, RestoresTheModeFromTheBackground) { expect_restored_after(SIGTERM, true); }

TEST(RawTerminal, LeavesForeignHandlersAlone)
{
    const auto pty = open_pty();
    ASSERT_TRUE(pty);
    struct sigaction mine{}, before{}, during{};
    mine.sa_handler = [](int) {};
    ::sigaction(SIGTERM, &mine, &before);
    {
        const auto raw = RawTerminal::enter(pty->slave.get());
        ASSERT_TRUE(raw);
        ::sigaction(SIGTERM, nullptr, &during);
    }
    ::sigaction(SIGTERM, &before, nullptr);
    EXPECT_EQ(during.sa_handler, mine.sa_handler);
}

} // namespace
} // namespace berth::sys
