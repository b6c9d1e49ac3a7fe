#include <linux/mount.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

std::size_t position_of(const Ran& ran, ExecEvent::Kind kind)
{
    for (std::size_t i = 0; i < ran.events.size(); ++i)
        if (ran.events[i].kind == kind) return i;
    return ran.events.size();
}

std::string numbers(int from, int to)
{
    std::string text;
    for (int i = from; i <= to; ++i) text += std::to_string(i) + "\n";
    return text;
}

/// Ends by SIGKILL when it has done its work, in the middle of everything else.
template <class F> [[noreturn]] void in_child(F work)
{
    try {
        work();
        ::kill(::getpid(), SIGKILL);
    } catch (const std::exception& e) {
        ::dprintf(2, "in the child: %s\n", e.what());
    }
    ::_exit(1);
}

TEST(KeeperStreams, KeepEveryByteOfBoth)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    // 8 MB each, at the same time, and not text.
    const Ran ran = keeper.run(client, keeper.shell(1, "dd if=/dev/urandom of=/dev/stdout bs=64k count=128 "
                                                       "2>/dev/null | tee /dev/stderr"));
    EXPECT_EQ(ran.out.size(), std::size_t{128} * 65536);
    EXPECT_TRUE(ran.out == ran.err);
    EXPECT_EQ(ran.status.code(), 0);
}

TEST(KeeperStreams, MoveWhatABusyCommandPrintsInLargePieces)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const std::string gate = keeper.dir.path() + "/gate";
    const std::string done = keeper.dir.path() + "/done";
    ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
    ASSERT_EQ(::mkfifo(done.c_str(), 0600), 0);
    const auto at = [&](const char* what) {
        return fmt::format("read x <{0}; {1}; echo y >{2}; ", gate, what, done);
    };
    const KeeperExec what = keeper.shell(1, at("dd if=/dev/zero bs=64k count=1 2>/dev/null") +
                                                at("head -c 500000 /dev/zero | tr '\\0' x"));
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    // What is printed while the keeper stands still is there all at once.
    const auto print = [&] {
        must(keeper.child().signal(SIGSTOP));
        {
            const UniqueFd open(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
            ASSERT_EQ(::write(open.get(), "go\n", 3), 3);
        }
        const UniqueFd said(
            ::open(done.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)); // nobody hangs for want of the other
        pollfd word{.fd = said.get(), .events = POLLIN, .revents = 0};
        EXPECT_EQ(::poll(&word, 1, 30'000), 1) << "it could not print all of it into its pipe";
        must(keeper.child().signal(SIGCONT));
    };
    ExecFollower follower = keeper.follow(1);
    print();
    Ran ran;
    while (ran.out.size() < 65536)
        for (const auto& event : must(follower.next(std::chrono::steady_clock::now() + 10s))) add(ran, event);
    // One who fills his pipe is busy; when the keeper answers he has a longer one.
    must(client.list());
    print();

    const Ran rest = read_all(follower);
    EXPECT_TRUE(rest.out == std::string(500'000, 'x'));
    EXPECT_EQ(rest.status.code(), 0);
    std::uint32_t longest = 0;
    for (const auto& record : must(keeper.open_log(1).records(0, 64)))
        longest = std::max(longest, record.length);
    EXPECT_EQ(longest, 256u << 10) << "one record for much of what came at once";
}

TEST(KeeperStreams, KeepTheirPaceAlsoAfterABurst)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(
        1, "dd if=/dev/zero bs=64k count=64 2>/dev/null; dd if=/dev/zero bs=1 count=100000 2>/dev/null");
    what.flags |= keeper::kPace;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower = keeper.follow(1);
    const Ran ran = read_all(follower);
    EXPECT_EQ(ran.out.size(), 64u * 65536 + 100'000);
    // Every small read is followed by a rest of 200 us: the index grows by time, not by writes.
    const auto records = must(keeper.open_log(1).records(0, 200'000));
    const auto small = std::ranges::count_if(records, [](const auto& one) { return one.length < 4096; });
    const auto took = ran.events.back().time - ran.events.front().time;
    EXPECT_LE(small, took / 200us + 10) << "of " << records.size();
}

TEST(KeeperStreams, PutTheExitAfterTheCommandsOwnOutputAndClosedAfterItsGrandchildren)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    // The grandchild holds the pipe and writes only when it is allowed to.
    const std::string gate = keeper.dir.path() + "/gate";
    ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
    KeeperExec what = keeper.shell(1, "(read x <" + gate + "; echo late) & echo early; exit 3");
    what.flags |= keeper::kNotify;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    must(client.wait_exit(1, 10s));
    EXPECT_EQ(must(client.list())[0].state, keeper::State::Exited);
    const UniqueFd open_gate(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::write(open_gate.get(), "go\n", 3), 3);

    ExecFollower follower = keeper.follow(1);
    const Ran ran = read_all(follower);
    EXPECT_EQ(ran.out, "early\nlate\n");
    const std::size_t exit = position_of(ran, ExecEvent::Kind::Exit);
    ASSERT_GT(exit, 0u);
    EXPECT_EQ(ran.events[exit - 1].bytes, "early\n");
    EXPECT_EQ(ran.events[exit + 1].bytes, "late\n");
    EXPECT_EQ(position_of(ran, ExecEvent::Kind::Closed), ran.events.size() - 1);
}

TEST(KeeperStreams, AreNotDelayedByAGrandchildThatNeverStopsWriting)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "yes & echo $! >&2; exit 5");
    what.flags |= keeper::kNotify;
    what.log_limit = 1 << 20;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    EXPECT_EQ(WEXITSTATUS(must(client.wait_exit(1, 10s))), 5);
    char pid[32] = {};
    ASSERT_GT(::pread(log.err(), pid, sizeof pid - 1, 0), 0);
    EXPECT_EQ(::kill(std::atoi(pid), SIGKILL), 0);
}

TEST(KeeperStreams, KeepHeadAndTailUnderALimitAndSayWhatIsMissing)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "seq 1 400000");
    what.log_limit = 256 * 1024;
    keeper.run(client, what);
    ExecFollower late = keeper.follow(1); // one that was there before may have seen more
    const Ran ran = read_all(late);
    const std::string all = numbers(1, 400000);
    constexpr std::size_t head = 128 * 1024;
    EXPECT_EQ(ran.out.size() + ran.lost, all.size());
    EXPECT_GE(ran.out.size(), 2 * head);
    EXPECT_LE(ran.out.size(), 4 * head);
    EXPECT_TRUE(ran.out.substr(0, head) == all.substr(0, head));
    EXPECT_TRUE(ran.out.substr(head) == all.substr(head + ran.lost));
    struct stat st{};
    ASSERT_EQ(::fstat(keeper.open_log(1).out(), &st), 0);
    EXPECT_LT(st.st_blocks * 512, 600 * 1024) << "the hole was not made";
    EXPECT_EQ(static_cast<std::size_t>(st.st_size), all.size()) << "offsets stay true";
}

TEST(KeeperStreams, NeverShowAHoleAsBytesToOneWhoReadsWhileItIsMade)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "seq 1 400000");
    what.log_limit = keeper::kMinLogLimit;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower = keeper.follow(1);
    const Ran ran = read_all(follower);
    EXPECT_EQ(ran.out.find('\0'), std::string::npos);
    EXPECT_EQ(ran.out.size() + ran.lost, numbers(1, 400000).size());
}

TEST(KeeperStreams, LoseNothingWhenThoseWhoReadThemAreKilled)
{
    KeeperProcess keeper;
    std::string copy;
    std::uint64_t next = 0;
    // The one who starts it is killed as well, right after it was told that it runs.
    const pid_t starter = ::fork();
    if (starter == 0)
        in_child([&] {
            KeeperClient client = keeper.client();
            const KeeperExec what = keeper.shell(1, "seq 1 300000");
            const ExecLog log = keeper.make_log(what);
            must(client.exec(what, log));
        });
    int status = 0;
    ::waitpid(starter, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    bool ended = false;
    for (int reader = 0; !ended; ++reader) {
        ASSERT_LT(reader, 100000);
        int pipe[2];
        ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
        const pid_t child = ::fork();
        if (child == 0)
            in_child([&] {
                // Hands over whole events and is killed in the middle of the stream.
                ExecFollower follower = keeper.follow(1, next);
                for (int rounds = 0; rounds < 3 && !follower.ended(); ++rounds)
                    for (const auto& event : must(follower.next(std::chrono::steady_clock::now() + 10s))) {
                        std::uint64_t head[3] = {event.sequence, event.bytes.size(),
                                                 event.kind == ExecEvent::Kind::Closed};
                        std::string part(reinterpret_cast<const char*>(head), sizeof head);
                        part += event.bytes;
                        for (std::size_t at = 0; at < part.size();)
                            at += static_cast<std::size_t>(
                                ::write(pipe[1], part.data() + at, part.size() - at));
                    }
            });
        ::close(pipe[1]);
        std::string got;
        char buffer[65536];
        for (ssize_t n; (n = ::read(pipe[0], buffer, sizeof buffer)) > 0;)
            got.append(buffer, static_cast<std::size_t>(n));
        ::close(pipe[0]);
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status));
        for (std::size_t at = 0; at < got.size();) {
            std::uint64_t head[3];
            std::memcpy(head, got.data() + at, sizeof head);
            copy.append(got, at + sizeof head, head[1]);
            at += sizeof head + head[1];
            next = head[0] + 1;
            ended = head[2] != 0;
        }
    }
    EXPECT_TRUE(copy == numbers(1, 300000));
}

TEST(KeeperStreams, WaitForOneWhoAttendsAndLoseNothing)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what =
        keeper.shell(1, "dd if=/dev/zero bs=64k count=1024 2>/dev/null; echo end; echo error >&2");
    what.log_limit = 16 << 20;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower = keeper.follow(1);
    follower.attend();
    // Written as far as it goes without a reader, and no further.
    const auto written = [&] {
        struct stat st{};
        EXPECT_EQ(::fstat(log.out(), &st), 0);
        return st.st_size;
    };
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (written() < 12 << 20 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms); // time in which it would go on
    EXPECT_LT(written(), 14 << 20);
    const Ran ran = read_all(follower);
    EXPECT_EQ(ran.out.size(), 1024u * 65536 + 4);
    EXPECT_EQ(ran.err, "error\n");
    EXPECT_EQ(position_of(ran, ExecEvent::Kind::Gap), ran.events.size()) << "something is missing";
}

TEST(KeeperStreams, WaitForNobodyWhoHasLeft)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    KeeperExec what = keeper.shell(1, "dd if=/dev/zero bs=64k count=1024 2>/dev/null");
    what.log_limit = 16 << 20;
    const ExecLog log = keeper.make_log(what);
    ASSERT_TRUE(must(client.exec(what, log)).started());
    {
        ExecFollower attends = keeper.follow(1);
        attends.attend();
        ExecFollower second = keeper.follow(1);
        second.attend();
        EXPECT_TRUE(attends.attends());
        EXPECT_FALSE(second.attends()) << "one is enough";
    }
    ExecFollower follower = keeper.follow(1);
    EXPECT_EQ(read_all(follower).status.code(), 0);
}

TEST(KeeperStreams, CanBeFollowedFromAnySequenceNumber)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const KeeperExec what = keeper.shell(1, "echo a; echo b >&2; echo c");
    const Ran all = keeper.run(client, what);
    for (std::uint64_t from = 0; from <= all.events.back().sequence; ++from) {
        ExecFollower follower = must(ExecFollower::read(keeper.open_log(1), from));
        const Ran rest = read_all(follower);
        EXPECT_EQ(rest.events.back().sequence, all.events.back().sequence);
        EXPECT_GE(rest.events.front().sequence, from);
    }
}

TEST(KeeperStreams, EndUnknownWhenTheKeeperIsKilledAndTheBytesStay)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const KeeperExec what = keeper.shell(1, "echo before; exec sleep 1000");
    const ExecLog log = keeper.make_log(what);
    const Launched launched = must(client.exec(what, log));
    ExecFollower follower = keeper.follow(1);
    Ran ran;
    while (ran.out.empty())
        for (const auto& event : must(follower.next(std::chrono::steady_clock::now() + 10s))) add(ran, event);
    must(keeper.child().signal(SIGKILL));
    while (!follower.keeper_gone())
        for (const auto& event : must(follower.next(std::chrono::steady_clock::now() + 10s))) add(ran, event);
    ::kill(launched.pid, SIGKILL);
    EXPECT_FALSE(follower.ended());
    must(keeper.open_log(1, ExecLog::Access::Repair).repair(system_clock().now()));
    const Ran rest = read_all(follower);
    EXPECT_EQ(ran.out, "before\n");
    EXPECT_FALSE(rest.status.known());
    EXPECT_EQ(rest.events.back().kind, ExecEvent::Kind::Closed);
}

TEST(KeeperStreams, DropTheTailWhereAFileCannotHaveHoles)
{
    // A ramfs that is mounted nowhere.
    const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "ramfs", FSOPEN_CLOEXEC)));
    if (!context) GTEST_SKIP() << "needs root to make a file system: sudo ctest -R DropTheTail";
    ASSERT_EQ(::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), 0);
    const UniqueFd mount(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
    ASSERT_TRUE(mount);
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const ExecLog log = must(ExecLog::create(mount.get(), ExecLog::Streams::Separate));
    KeeperExec what = keeper.shell(1, "seq 1 400000; exit 4");
    what.log_limit = 256 * 1024;
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower =
        must(ExecFollower::follow(must(ExecLog::open(mount.get())), 1, 0, keeper.client()));
    const Ran ran = read_all(follower);
    const std::string all = numbers(1, 400000);
    EXPECT_GE(ran.out.size(), what.log_limit);
    EXPECT_LE(ran.out.size(), 2 * what.log_limit);
    EXPECT_EQ(ran.out.size() + ran.lost, all.size());
    EXPECT_TRUE(ran.out == all.substr(0, ran.out.size()));
    EXPECT_EQ(ran.status.code(), 4);
}

TEST(KeeperStreams, GoOnWithAGapWhenTheDiskIsFull)
{
    // RLIMIT_FSIZE of the keeper stands for the disk: its writes beyond are refused just so.
    TempDir dir;
    const UniqueFd listener = must(sys::listen_at(dir.fd(), "socket", sys::SocketKind::SeqPacket));
    sys::Child child = start_keeper({"k", "test", std::to_string(::getuid())}, listener.get());
    const rlimit small{100'000, 100'000};
    ASSERT_EQ(::prlimit(child.pid(), RLIMIT_FSIZE, &small, nullptr), 0);
    KeeperClient client = must(KeeperClient::connect(dir.fd(), "socket", 10s));
    const ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    KeeperExec what = KeeperProcess::shell(1, "seq 1 50000; exit 4");
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower = must(ExecFollower::follow(must(ExecLog::open(dir.fd())), 1, 0,
                                                      must(KeeperClient::connect(dir.fd(), "socket", 10s))));
    const Ran ran = read_all(follower);
    const std::string all = numbers(1, 50000);
    EXPECT_TRUE(ran.out == all.substr(0, 100'000));
    EXPECT_EQ(ran.lost, all.size() - 100'000);
    EXPECT_EQ(ran.status.code(), 4) << "draining goes on, and the exit is told";
}

/// A tmpfs that is mounted nowhere, of so many bytes; empty without root.
UniqueFd small_disk(const char* size)
{
    const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
    if (!context) return {};
    EXPECT_EQ(::syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, "size", size, 0), 0);
    EXPECT_EQ(::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), 0);
    return UniqueFd(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
}

void fill_disk(int directory)
{
    const UniqueFd file(::openat(directory, "filler", O_CREAT | O_WRONLY | O_CLOEXEC | O_APPEND, 0600));
    const std::string page(4096, 'x');
    while (::write(file.get(), page.data(), page.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
}

TEST(KeeperStreams, TellTheExitAlsoWhenTheDiskTakesNotOneByteMore)
{
    const UniqueFd disk = small_disk("256k");
    if (!disk) GTEST_SKIP() << "needs root to make a file system: sudo ctest -R TellTheExit";
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const std::string gate = keeper.dir.path() + "/gate";
    ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
    const ExecLog log = must(ExecLog::create(disk.get(), ExecLog::Streams::Separate));
    // More writes than a page of the index has records, each read by itself.
    KeeperExec what = keeper.shell(1, "echo first; read x <" + gate +
                                          "; i=0; while [ $i -lt 200 ]; do echo $i; sleep 0.003; "
                                          "i=$((i+1)); done; echo last >&2; exit 7");
    ASSERT_TRUE(must(client.exec(what, log)).started());
    ExecFollower follower =
        must(ExecFollower::follow(must(ExecLog::open(disk.get())), 1, 0, keeper.client()));
    Ran ran;
    while (ran.out.empty())
        for (const auto& event : must(follower.next(std::chrono::steady_clock::now() + 10s))) add(ran, event);
    fill_disk(disk.get());
    {
        const UniqueFd go(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::write(go.get(), "\n", 1), 1);
    }
    const Ran rest = read_all(follower);
    EXPECT_EQ(rest.status.code(), 7);
    EXPECT_GT(rest.lost, 0u);
    EXPECT_EQ(rest.events.back().kind, ExecEvent::Kind::Closed);
    // What was kept for the end and not needed is given back.
    struct stat st{};
    ASSERT_EQ(::fstat(log.index(), &st), 0);
    EXPECT_LE(st.st_blocks * 512, (st.st_size + 4095) / 4096 * 4096);
}

TEST(KeeperStreams, RefuseACommandWhoseLogHasNoRoom)
{
    const UniqueFd disk = small_disk("64k");
    if (!disk) GTEST_SKIP() << "needs root to make a file system: sudo ctest -R RefuseACommand";
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const ExecLog log = must(ExecLog::create(disk.get(), ExecLog::Streams::Separate));
    fill_disk(disk.get());
    const auto launched = client.exec(keeper.shell(1, "echo hi"), log);
    ASSERT_FALSE(launched && launched->started());
    if (!launched) EXPECT_EQ(launched.error().sys.value(), ENOSPC) << launched.error().line();
}

} // namespace
} // namespace berth::local::test
