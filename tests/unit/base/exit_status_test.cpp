#include "base/exit_status.hpp"

#include <gtest/gtest.h>

namespace berth {
namespace {

siginfo_t told(int code, int status)
{
    siginfo_t info{};
    info.si_code = code;
    info.si_status = status;
    return info;
}

TEST(ExitStatus, SaysWhatTheKernelSaid)
{
    EXPECT_EQ(to_string(ExitStatus::from_wait(7 << 8)), "exit code 7");
    EXPECT_EQ(to_string(ExitStatus::from_wait(SIGKILL)), "killed by SIGKILL");
    EXPECT_EQ(to_string(ExitStatus::from_wait(SIGSEGV | 0x80)), "killed by SIGSEGV (core dumped)");
    EXPECT_EQ(to_string(ExitStatus::from_wait(63)), "killed by signal 63");
}

TEST(ExitStatus, ShowsACodeOrASignalNeverBoth)
{
    const auto exited = ExitStatus::from_wait(137 << 8);
    EXPECT_EQ(exited.code(), 137);
    EXPECT_EQ(exited.signal(), std::nullopt);
    const auto killed = ExitStatus::from_wait(SIGKILL);
    EXPECT_EQ(killed.code(), std::nullopt);
    EXPECT_EQ(killed.signal(), SIGKILL);
    EXPECT_EQ(exited.shell_code(), killed.shell_code()) << "only a shell cannot tell them apart";
    EXPECT_NE(exited, killed);
}

TEST(ExitStatus, IsTheSameFromWaitidAndFromWait)
{
    EXPECT_EQ(ExitStatus::from(told(CLD_EXITED, 7)), ExitStatus::from_wait(7 << 8));
    EXPECT_EQ(ExitStatus::from(told(CLD_KILLED, SIGTERM)), ExitStatus::from_wait(SIGTERM));
    EXPECT_EQ(ExitStatus::from(told(CLD_DUMPED, SIGABRT)), ExitStatus::from_wait(SIGABRT | 0x80));
}

TEST(ExitStatus, IsUnknownUnlessTheKernelToldAnEnd)
{
    for (const int raw : {0x137f, 0xffff, 0x10000, 0x7f, 0x010009, 0x80, -1})
        EXPECT_FALSE(ExitStatus::from_wait(raw).known()) << std::hex << raw;
    EXPECT_FALSE(ExitStatus::from(told(CLD_STOPPED, SIGSTOP)).known());
    EXPECT_FALSE(ExitStatus::from(told(CLD_KILLED, 0)).known());
    EXPECT_FALSE(ExitStatus::from(siginfo_t{}).known());
}

TEST(ExitStatus, UnknownIsNeverSuccess)
{
    const ExitStatus lost;
    EXPECT_EQ(lost, ExitStatus::unknown());
    EXPECT_FALSE(lost.known());
    EXPECT_FALSE(lost.success());
    EXPECT_EQ(lost.code(), std::nullopt);
    EXPECT_EQ(lost.signal(), std::nullopt);
    EXPECT_EQ(lost.shell_code(), 125);
    EXPECT_EQ(to_string(lost), "unknown");
    EXPECT_TRUE(ExitStatus::from_wait(0).success());
}

} // namespace
} // namespace berth
