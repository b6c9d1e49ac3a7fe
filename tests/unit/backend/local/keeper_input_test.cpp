#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

/// Waits until `text` has been printed.
void wait_for(ExecFollower& follower, Ran& ran, const std::string& text)
{
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (ran.out.find(text) == std::string::npos && std::chrono::steady_clock::now() < until)
        for (const auto& event : must(follower.next(until))) add(ran, event);
    ASSERT_NE(ran.out.find(text), std::string::npos) << ran.out;
}

TEST(KeeperInput, IsWrittenOncePerWriteIdAndEnds)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.command(1, {"cat"});
    what.flags |= keeper::kStdin;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    EXPECT_EQ(must(client.write_stdin(1, 1, "one ")), 4u);
    EXPECT_EQ(must(client.write_stdin(1, 5, "two\n")), 4u);
    EXPECT_EQ(must(client.write_stdin(1, 5, "two\n")), 4u) << "answered again, not written again";
    const auto stale = client.write_stdin(1, 4, "never");
    ASSERT_FALSE(stale);
    EXPECT_EQ(stale.error().sys.value(), ESTALE);
    EXPECT_EQ(must(client.list())[0].write, 5u);
    must(client.close_stdin(1, 6));
    ExecFollower follower = keeper.follow(1);
    EXPECT_EQ(read_all(follower).out, "one two\n");
}

TEST(KeeperInput, TakesWhatFitsAndNeverBlocks)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "sleep 1000");
    what.flags |= keeper::kStdin;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    const std::string piece(50'000, 'x');
    std::size_t total = 0;
    std::uint64_t write = 0;
    for (std::size_t taken = 1; taken != 0; total += taken)
        taken = must(client.write_stdin(1, ++write, piece));
    EXPECT_GE(total, piece.size());
    EXPECT_LE(total, 65536u) << "a pipe takes no more, unread";
    EXPECT_TRUE(client.ping());
    must(client.signal(1, SIGKILL, keeper::Scope::Group));
    ExecFollower follower = keeper.follow(1);
    EXPECT_EQ(read_all(follower).status.signal(), SIGKILL);
}

TEST(KeeperInput, ToAnExecWithoutItOrWithoutAReaderIsABrokenPipe)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec closed = keeper.shell(1, "exec <&-; echo closed; exec sleep 1000");
    closed.flags |= keeper::kStdin;
    const ExecLog log = keeper.make_log(closed);
    ASSERT_TRUE(must(client.exec(closed, log)).started());
    ExecFollower follower = keeper.follow(1);
    Ran ran;
    wait_for(follower, ran, "closed\n");
    EXPECT_EQ(client.write_stdin(1, 1, "x").error().sys.value(), EPIPE);
    const KeeperExec none = keeper.command(2, {"sleep", "1000"});
    const ExecLog other = keeper.make_log(none);
    ASSERT_TRUE(must(client.exec(none, other)).started());
    EXPECT_EQ(client.write_stdin(2, 1, "x").error().sys.value(), EPIPE);
    EXPECT_EQ(client.write_stdin(3, 1, "x").error().code, Code::NotFound);
    must(client.signal(1, SIGKILL, keeper::Scope::Group));
    must(client.signal(2, SIGKILL, keeper::Scope::Process));
}

TEST(KeeperTerminal, HasASizeThatChangesAndEndsByItsEndOfFile)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "stty size; tty; test -t 2 && echo tty2; read line; stty size; "
                                      "echo got $line; cat >/dev/null; echo end");
    what.flags |= keeper::kTerminal;
    what.rows = 11;
    what.columns = 22;
    const ExecLog log = keeper.make_log(what);
    const Launched launched = must(client.exec(what, log));
    if (launched.step == keeper::Step::Terminal)
        GTEST_SKIP() << "no pty here (" << launched.reason() << "): mount -t devpts devpts /dev/pts";
    ASSERT_TRUE(launched.started()) << launched.reason();
    ExecFollower follower = keeper.follow(1);
    Ran ran;
    wait_for(follower, ran, "tty2");
    EXPECT_EQ(ran.out.substr(0, 7), "11 22\r\n");
    EXPECT_NE(ran.out.find("/dev/pts/"), std::string::npos);
    must(client.resize(1, 33, 44));
    EXPECT_EQ(must(client.write_stdin(1, 1, "hello\n")), 6u);
    wait_for(follower, ran, "33 44");
    wait_for(follower, ran, "got hello");
    must(client.close_stdin(1, 2));
    const Ran rest = read_all(follower);
    EXPECT_NE(rest.out.find("end\r\n"), std::string::npos) << rest.out;
    EXPECT_EQ(rest.status.code(), 0);
    EXPECT_EQ(rest.events.back().kind, ExecEvent::Kind::Closed);
}

TEST(KeeperTerminal, ShowsEverythingPrintedBeforeTheExit)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "stty -opost; seq 1 20000");
    what.flags |= keeper::kTerminal;
    const ExecLog log = keeper.make_log(what);
    const Launched launched = must(client.exec(what, log));
    if (launched.step == keeper::Step::Terminal)
        GTEST_SKIP() << "no pty here (" << launched.reason() << "): mount -t devpts devpts /dev/pts";
    ExecFollower follower = keeper.follow(1);
    const Ran ran = read_all(follower);
    std::string expected;
    for (int i = 1; i <= 20000; ++i) expected += std::to_string(i) + "\n";
    EXPECT_TRUE(ran.out == expected);
    EXPECT_EQ(ran.events[ran.events.size() - 2].kind, ExecEvent::Kind::Exit);
}

TEST(KeeperTerminal, PassesTheInterruptCharacterToTheCommand)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what =
        keeper.shell(1, "trap 'echo stopped; exit 9' INT; echo ready; while :; do sleep 0.01; done");
    what.flags |= keeper::kTerminal;
    const ExecLog log = keeper.make_log(what);
    const Launched launched = must(client.exec(what, log));
    if (launched.step == keeper::Step::Terminal)
        GTEST_SKIP() << "no pty here (" << launched.reason() << "): mount -t devpts devpts /dev/pts";
    ExecFollower follower = keeper.follow(1);
    Ran ran;
    wait_for(follower, ran, "ready");
    must(client.write_stdin(1, 1, "\x03"));
    EXPECT_EQ(read_all(follower).status.code(), 9);
}

TEST(KeeperSignal, ReachesTheProcessOrItsWholeGroup)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const std::string script =
        "sh -c \"trap 'echo inner; exit' TERM; echo ready; while :; do sleep 0.01; done\" & "
        "trap 'echo outer; wait; exit 6' TERM; wait";
    const KeeperExec what = keeper.shell(1, script);
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower = keeper.follow(1);
    Ran ran;
    wait_for(follower, ran, "ready");
    must(client.signal(1, SIGTERM, keeper::Scope::Process));
    wait_for(follower, ran, "outer");
    EXPECT_EQ(ran.out.find("inner"), std::string::npos);
    must(client.signal(1, SIGTERM, keeper::Scope::Group));
    const Ran rest = read_all(follower);
    EXPECT_NE(rest.out.find("inner"), std::string::npos);
    EXPECT_EQ(client.signal(1, SIGTERM, keeper::Scope::Group).error().code, Code::NotFound);
    EXPECT_EQ(client.signal(1, 65, keeper::Scope::Group).error().code, Code::Invalid);
}

} // namespace
} // namespace berth::local::test
