#include <sys/stat.h>

#include <csignal>

#include "base/io.hpp"
#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

/// Times of commands, with files of the test's own in the place of the kernel's.
class KeeperTimes : public testing::Test {
protected:
    [[nodiscard]] UniqueFd file(const std::string& name, const std::string& text) const
    {
        must(replace_file_at(keeper_.dir.fd(), name, text));
        UniqueFd opened(::openat(keeper_.dir.fd(), name.c_str(), O_RDWR | O_CLOEXEC));
        if (!opened) throw std::runtime_error(name);
        return opened;
    }
    static void write_over(const UniqueFd& file, const std::string& text)
    {
        ASSERT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
    /// Starts it with a time.
    ExecFollower start(const KeeperExec& what, const KeeperTime& time)
    {
        EXPECT_TRUE(must(client_.expect_time(what.id, time)));
        return start(what);
    }
    ExecFollower start(const KeeperExec& what)
    {
        const ExecLog log = keeper_.make_log(what);
        const Launched launched = must(client_.exec(what, log));
        if (!launched.started()) throw std::runtime_error(launched.reason());
        return keeper_.follow(what.id);
    }
    /// Reads until it has printed this.
    static void await_output(ExecFollower& follower, const std::string& text)
    {
        Ran ran;
        const auto until = std::chrono::steady_clock::now() + 30s;
        while (ran.out.find(text) == std::string::npos && std::chrono::steady_clock::now() < until &&
               !follower.ended())
            for (const auto& event : must(follower.next(until))) add(ran, event);
        ASSERT_NE(ran.out.find(text), std::string::npos) << "it was ended";
    }

    KeeperProcess keeper_;
    KeeperClient client_ = keeper_.client();
};

TEST_F(KeeperTimes, EndACommandThatTakesLongerAndSayWhy)
{
    auto follower = start(keeper_.shell(1, "echo begun; sleep 300 & sleep 300"), {.limit = 2s});
    const Ran ran = read_all(follower); // its streams are closed: nobody of its group is left
    EXPECT_EQ(ran.out, "begun\n");
    EXPECT_EQ(ran.status.signal(), SIGKILL);
    EXPECT_TRUE(must(follower.overdue()));
    const auto took = ran.events.back().time - ran.events.front().time;
    EXPECT_GE(took, 1900ms);
}

TEST_F(KeeperTimes, AreHeldWhenNobodyIsThereAnyMore)
{
    {
        KeeperClient other = keeper_.client();
        ASSERT_TRUE(must(other.expect_time(1, {.limit = 200ms})));
        const auto what = keeper_.shell(1, "sleep 300");
        ASSERT_TRUE(must(other.exec(what, keeper_.make_log(what))).started());
    }
    auto follower = keeper_.follow(1);
    EXPECT_EQ(read_all(follower).status.signal(), SIGKILL);
    EXPECT_TRUE(must(follower.overdue()));
}

TEST_F(KeeperTimes, LeaveAloneWhoEndsBefore)
{
    auto follower = start(keeper_.shell(1, "kill -9 $$"), {.limit = 100s});
    EXPECT_EQ(read_all(follower).status.signal(), SIGKILL);
    EXPECT_FALSE(must(follower.overdue()));
}

TEST_F(KeeperTimes, AreOfOneExecAndOfOneClient)
{
    ASSERT_TRUE(must(client_.expect_time(7, {.limit = 100ms})));
    KeeperClient other = keeper_.client();
    ASSERT_TRUE(must(other.expect_time(1, {.limit = 100ms})));
    // Neither was said by this client for this exec; and what was said for another one is forgotten.
    auto one = start(keeper_.shell(1, "sleep 0.5"));
    auto seven = start(keeper_.shell(7, "sleep 0.5"));
    EXPECT_EQ(read_all(one).status.code(), 0);
    EXPECT_EQ(read_all(seven).status.code(), 0);
}

TEST_F(KeeperTimes, EndTheWholeGroupByTheFileThatCameAlong)
{
    const UniqueFd kill = file("cgroup.kill", "");
    auto follower = start(keeper_.shell(1, "sleep 300"), {.limit = 100ms, .kill = kill.get()});
    EXPECT_EQ(read_all(follower).status.signal(), SIGKILL);
    EXPECT_TRUE(must(read_file_at(keeper_.dir.fd(), "cgroup.kill")).starts_with("1"));
}

TEST_F(KeeperTimes, StandStillInAPauseAndCountNoneOfBefore)
{
    const UniqueFd pauses = file("paused", "00000000000000000900 00000000000000000000");
    const UniqueFd frozen = file("frozen", "1\n");
    auto follower = start(keeper_.shell(1, "sleep 0.6; echo still here; exec sleep 300"),
                          {.limit = 100ms, .pauses = pauses.get(), .frozen = frozen.get()});
    await_output(follower, "still here");
    EXPECT_FALSE(must(follower.overdue()));
    // Thawed, and nobody has written yet for how long it stood still: that comes in a moment.
    write_over(pauses, "00000000000000000900 00000000000000000001");
    write_over(frozen, "0\n");
    write_over(pauses, "00000000000000001000 00000000000000000000");
    EXPECT_EQ(read_all(follower).status.signal(), SIGKILL);
    EXPECT_TRUE(must(follower.overdue()));
}

TEST_F(KeeperTimes, AreLongerByThePausesMeanwhile)
{
    const UniqueFd pauses = file("paused", "");
    const UniqueFd frozen = file("frozen", "0\n");
    auto follower = start(keeper_.shell(1, "echo begun; sleep 2.5; echo still here"),
                          {.limit = 2s, .pauses = pauses.get(), .frozen = frozen.get()});
    await_output(follower, "begun");
    write_over(pauses, "00000000000000100000 00000000000000000000");
    const Ran ran = read_all(follower);
    EXPECT_EQ(ran.out, "still here\n");
    EXPECT_EQ(ran.status.code(), 0);
}

TEST_F(KeeperTimes, WhoseDescriptorsCouldHoldTheKeeperAreRefusedAndLeaveNothing)
{
    ASSERT_EQ(::mkfifoat(keeper_.dir.fd(), "fifo", 0600), 0);
    const UniqueFd fifo(::openat(keeper_.dir.fd(), "fifo", O_RDWR | O_CLOEXEC));
    const bool visible = ::getuid() == 0; // /proc/PID/fd of a process that is not dumpable
    must(client_.ping());
    const std::size_t before = visible ? keeper_.open_descriptors() : 0;
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(client_.expect_time(1, {.limit = 1s, .kill = fifo.get()}));
        EXPECT_FALSE(client_.expect_time(1, {.limit = 1s, .pauses = fifo.get(), .frozen = fifo.get()}));
    }
    EXPECT_FALSE(client_.expect_time(1, {.limit = 0s}));
    const UniqueFd good = file("good", "");
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(must(client_.expect_time(1, {.limit = 1s, .kill = good.get()})));
    client_ = keeper_.client(); // what was expected goes with who said it
    // It notices the end of the other conversation in its own time, which each question gives it.
    const auto until = std::chrono::steady_clock::now() + 10s;
    do must(client_.ping());
    while (visible && keeper_.open_descriptors() != before && std::chrono::steady_clock::now() < until);
    if (visible) EXPECT_EQ(keeper_.open_descriptors(), before);
}

} // namespace
} // namespace berth::local::test
