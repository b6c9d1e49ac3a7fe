#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <thread>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

using keeper::Type;

/// A socket without a client's manners.
UniqueFd raw_socket(const KeeperProcess& keeper)
{
    return must(sys::connect_at(keeper.dir.fd(), "socket", sys::SocketKind::SeqPacket, 10s));
}

std::string header(std::uint32_t type, std::uint32_t length, std::uint64_t request = 1)
{
    const keeper::Header h{type, length, request};
    return {reinterpret_cast<const char*>(&h), sizeof h};
}

keeper::Reply answer(int socket)
{
    const auto message = must(sys::receive_message(socket, Bytes{sizeof(keeper::ItemsReply)}, 4));
    if (message.bytes.size() < sizeof(keeper::Reply)) return {};
    return keeper::load<keeper::Reply>(message.bytes.data());
}

/// User and system time, from /proc/PID/stat.
long cpu_ticks(pid_t pid)
{
    std::string stat = must(read_file("/proc/" + std::to_string(pid) + "/stat"));
    const auto fields = split(std::string_view(stat).substr(stat.rfind(')') + 2), ' ');
    return std::stol(fields[11]) + std::stol(fields[12]);
}

TEST(KeeperMessages, ThatMakeNoSenseAreRefusedAndLeaveNothingBehind)
{
    KeeperProcess keeper;
    const UniqueFd socket = raw_socket(keeper);
    must(sys::send_message(socket.get(), header(10, 16)));
    ASSERT_EQ(answer(socket.get()).header.type, static_cast<std::uint32_t>(Type::Ok));
    const bool visible = ::getuid() == 0; // /proc/PID/fd of a process that is not dumpable
    const std::size_t before = visible ? keeper.open_descriptors() : 0;

    const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::vector<int> many(16, file.get()), too_many(40, file.get());
    const std::string exec_head = header(1, sizeof(keeper::ExecRequest)) +
                                  std::string(sizeof(keeper::ExecRequest) - sizeof(keeper::Header), '\xff');
    struct Bad {
        std::string bytes;
        std::vector<int> fds;
    };
    const Bad bad[] = {
        {"x", {}},
        {"x", {file.get()}},
        {header(10, 17), {}},
        {header(10, 16) + "y", {}},
        {header(10, 16), {file.get()}},
        {header(77, 16), many},
        {header(0, 16), {}},
        {header(100, 16), {}},
        {header(1, 16), many},
        {exec_head, many},
        {exec_head, too_many},
        {header(2, 40) + std::string(24, '\0'), many},
        {header(4, 24) + std::string(8, '\1'), {}},
        {header(4, 24) + std::string(8, '\1'), {file.get(), file.get()}},
        {header(4, 24) + std::string(8, '\1'), {file.get()}}, // not a non-blocking eventfd
        {header(5, 32) + std::string(16, '\xff'), {}},
        {header(6, 31) + std::string(15, '\1'), {}},
        {header(9, 24) + std::string(8, '\0'), {}},
        {std::string(65000, 'z'), many},
        {header(6, 65000) + std::string(64984, 'z'), {}},
    };
    for (const Bad& b : bad) {
        must(sys::send_message(socket.get(), b.bytes, b.fds));
        EXPECT_EQ(answer(socket.get()).header.type, static_cast<std::uint32_t>(Type::Err))
            << "type " << keeper::load<std::uint32_t>((b.bytes + "    ").data());
    }
    KeeperClient client = keeper.client();
    EXPECT_TRUE(client.ping());
    EXPECT_TRUE(must(client.list()).empty());
    if (visible)
        EXPECT_EQ(keeper.open_descriptors(), before + 1) << "the client's own socket, and nothing else";
}

TEST(KeeperMessages, ALogThatIsNotAFileIsRefused)
{
    KeeperProcess keeper;
    const UniqueFd socket = raw_socket(keeper);
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const UniqueFd read_end(pipe[0]), write_end(pipe[1]);
    keeper::ExecRequest r{};
    const std::string body = std::string("/\0true\0", 7);
    r.header = {1, static_cast<std::uint32_t>(sizeof r + body.size()), 1};
    r.exec = 1;
    r.argc = 1;
    r.log_limit = 1 << 20;
    r.body_length = static_cast<std::uint32_t>(body.size());
    r.uid = ::getuid();
    r.gid = ::getgid();
    const int fds[3] = {write_end.get(), write_end.get(), write_end.get()};
    must(sys::send_message(socket.get(), std::string(reinterpret_cast<const char*>(&r), sizeof r) + body,
                           fds));
    const keeper::Reply reply = answer(socket.get());
    EXPECT_EQ(reply.header.type, static_cast<std::uint32_t>(Type::Err));
    EXPECT_EQ(reply.error, EINVAL);
}

TEST(KeeperMessages, ABodyThatCouldStillChangeIsRefused)
{
    KeeperProcess keeper;
    const UniqueFd socket = raw_socket(keeper);
    const KeeperExec what = keeper.command(1, {"true"});
    const ExecLog log = keeper.make_log(what);
    const UniqueFd body(::memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(body.get(), 100'000), 0);
    keeper::ExecRequest r{};
    r.header = {1, sizeof r, 1};
    r.exec = 1;
    r.argc = 1;
    r.log_limit = 1 << 20;
    r.flags = keeper::kBodyInMemfd;
    r.body_length = 100'000;
    const int fds[4] = {log.index(), log.out(), log.err(), body.get()};
    must(sys::send_message(socket.get(), {reinterpret_cast<const char*>(&r), sizeof r}, fds));
    const keeper::Reply reply = answer(socket.get());
    EXPECT_EQ(reply.step, keeper::Step::Body);
    EXPECT_EQ(reply.error, EPERM);
}

TEST(KeeperMessages, AreTakenFromItsOwnerOnly)
{
    KeeperProcess keeper(std::to_string(::getuid() + 4242));
    auto client = KeeperClient::connect(keeper.dir.fd(), "socket", 5s);
    ASSERT_TRUE(client);
    const auto pinged = client->ping();
    ASSERT_FALSE(pinged);
    EXPECT_EQ(pinged.error().code, Code::Unavailable) << pinged.error().line();
}

TEST(KeeperMessages, OfSixtyFourClientsAreAllAnswered)
{
    KeeperProcess keeper;
    std::vector<KeeperClient> clients;
    for (int i = 0; i < 64; ++i) clients.push_back(keeper.client());
    for (auto& client : clients) EXPECT_TRUE(client.ping());
    KeeperClient one_too_many = keeper.client(2s);
    EXPECT_FALSE(one_too_many.ping());
    clients.pop_back();
    // The keeper notices the end of a connection and the next one at the same time at the latest.
    bool again = false;
    for (int i = 0; i < 1000 && !again; ++i) {
        again = keeper.client(2s).ping().has_value();
        if (!again) std::this_thread::sleep_for(5ms);
    }
    EXPECT_TRUE(again);
}

TEST(KeeperMessages, OutOfDescriptorsItAnswersWhomItKnowsAndRests)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    must(client.ping());
    // No descriptor above those it has: a new connection stays in the queue.
    const rlimit none{4, 4};
    ASSERT_EQ(::prlimit(keeper.child().pid(), RLIMIT_NOFILE, &none, nullptr), 0);
    KeeperClient waiting = keeper.client(300ms);
    EXPECT_EQ(waiting.ping().error().code, Code::DeadlineExceeded);
    const KeeperExec what = keeper.command(1, {"true"});
    const Launched launched = must(client.exec(what, keeper.make_log(what)));
    EXPECT_EQ(launched.error, EMFILE);
    EXPECT_TRUE(client.ping());
    // 300 ms of waiting with a readable listener: a loop without rest would have used them all.
    EXPECT_LT(cpu_ticks(keeper.child().pid()), ::sysconf(_SC_CLK_TCK) / 10);
}

TEST(KeeperMessages, TwoHundredAndFiftySixExecsMayLive)
{
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 2048) GTEST_SKIP() << "needs a hard limit of 2048 open files: ulimit -Hn 2048";
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    for (std::uint64_t id = 1; id <= 256; ++id) {
        const KeeperExec what = keeper.command(id, {"sleep", "1000"});
        const Launched launched = must(client.exec(what, keeper.make_log(what)));
        ASSERT_TRUE(launched.started()) << id << " " << launched.reason();
    }
    const KeeperExec what = keeper.command(257, {"sleep", "1000"});
    EXPECT_EQ(must(client.exec(what, keeper.make_log(what))).error, EAGAIN);
    EXPECT_EQ(must(client.list()).size(), 256u);
    must(client.stop());
    ExecFollower follower = must(ExecFollower::read(keeper.open_log(256), 0));
    EXPECT_EQ(read_all(follower).status.signal(), SIGKILL) << "stopped execs have their truth in the log";
}

TEST(KeeperMessages, ListForgetsOldClosedExecsFirst)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    for (std::uint64_t id = 1; id <= 40; ++id) keeper.run(client, keeper.shell(id, "exit 1"));
    const auto items = must(client.list());
    EXPECT_EQ(items.size(), 32u);
    for (const auto& item : items) {
        EXPECT_GT(item.exec, 8u);
        EXPECT_EQ(item.state, keeper::State::Closed);
        EXPECT_EQ(WEXITSTATUS(item.status), 1);
    }
}

TEST(KeeperMessages, TheSameExecIdCannotBeUsedTwice)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const KeeperExec what = keeper.command(1, {"true"});
    keeper.run(client, what);
    const TempDir other;
    EXPECT_EQ(must(client.exec(what, must(ExecLog::create(other.fd(), ExecLog::Streams::Separate)))).error,
              EEXIST);
}

TEST(KeeperMessages, DialGivesASocketInsideTheSandbox)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    const UniqueFd dialled = must(client.dial(ntohs(at.sin_port)));
    const UniqueFd served(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::write(served.get(), "hi", 2), 2);
    pollfd waiting{dialled.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
    char text[3] = {};
    EXPECT_EQ(::read(dialled.get(), text, 2), 2);
    EXPECT_STREQ(text, "hi");
    EXPECT_EQ(client.dial(0).error().code, Code::Invalid);
}

char state_of(pid_t pid)
{
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return stat ? (*stat)[stat->rfind(')') + 2] : '?';
}

void wait_for_state(pid_t pid, char state)
{
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (state_of(pid) != state && std::chrono::steady_clock::now() < until) ::usleep(500);
    ASSERT_EQ(state_of(pid), state);
}

TEST(KeeperMessages, AnAdoptedCommandIsLoggedAndReapedEvenWhenItIsDeadBeforeTheMessageIsRead)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    // A shell that ends plays the spawner: the kernel gives its child to the keeper.
    const std::string gate = keeper.dir.path() + "/gate";
    ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
    const Ran spawner =
        keeper.run(client, keeper.shell(1, "(read x <" + gate + "; exit 5) >/dev/null 2>&1 & echo $!"));
    const pid_t orphan = std::atoi(spawner.out.c_str());
    ASSERT_GT(orphan, 1);
    int out[2], err[2];
    ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(err, O_CLOEXEC), 0);
    UniqueFd ends[4] = {UniqueFd(out[0]), UniqueFd(out[1]), UniqueFd(err[0]), UniqueFd(err[1])};

    // The keeper sleeps; a connection, the message and the death wait for it together.
    must(keeper.child().signal(SIGSTOP));
    wait_for_state(keeper.child().pid(), 'T');
    const UniqueFd socket = raw_socket(keeper);
    KeeperExec shape;
    shape.id = 2;
    const ExecLog log = keeper.make_log(shape);
    keeper::AdoptRequest r{};
    r.header = {static_cast<std::uint32_t>(Type::Adopt), sizeof r, 1};
    r.exec = 2;
    r.log_limit = 1 << 20;
    r.pid = orphan;
    const int fds[5] = {log.index(), log.out(), log.err(), out[0], err[0]};
    must(sys::send_message(socket.get(), {reinterpret_cast<const char*>(&r), sizeof r}, fds));
    ASSERT_EQ(::write(out[1], "adopted\n", 8), 8);
    for (auto& end : ends) end.reset();
    {
        const UniqueFd open_gate(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::write(open_gate.get(), "go\n", 3), 3);
    }
    wait_for_state(orphan, 'Z');
    must(keeper.child().signal(SIGCONT));

    ExecFollower follower = keeper.follow(2);
    const Ran ran = read_all(follower);
    EXPECT_EQ(ran.out, "adopted\n");
    EXPECT_EQ(ran.status.code(), 5);
}

TEST(KeeperMessages, AnAdoptedCommandTakesInputAndSignals)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    int out[2], err[2], in[2];
    ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(err, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(in, O_CLOEXEC), 0);
    const Ran spawner = keeper.run(client, keeper.shell(1, "sleep 1000 >/dev/null 2>&1 & echo $!"));
    KeeperExec shape;
    shape.id = 2;
    const ExecLog log = keeper.make_log(shape);
    const KeeperAdopt what{.id = 2,
                           .pid = std::atoi(spawner.out.c_str()),
                           .flags = keeper::kNotify | keeper::kStdin,
                           .log_limit = 1 << 20,
                           .ends = {out[0], err[0], in[1]}};
    must(client.adopt(what, log));
    for (const int fd : {out[0], out[1], err[0], err[1], in[1]}) ::close(fd);
    const UniqueFd input(in[0]);
    EXPECT_EQ(must(client.write_stdin(2, 1, "word")), 4u);
    char word[5] = {};
    EXPECT_EQ(::read(input.get(), word, 4), 4);
    EXPECT_STREQ(word, "word");
    must(client.signal(2, SIGTERM, keeper::Scope::Process));
    EXPECT_EQ(WTERMSIG(must(client.wait_exit(2, 10s))), SIGTERM);
}

TEST(KeeperMessages, StopEndsEverythingItStarted)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const KeeperExec what = keeper.shell(1, "trap '' TERM HUP INT; while :; do sleep 0.1; done");
    const Launched launched = must(client.exec(what, keeper.make_log(what)));
    must(client.stop());
    const auto ended = must(keeper.child().wait());
    EXPECT_TRUE(ended.success());
    EXPECT_EQ(::kill(launched.pid, 0), -1);
}

TEST(KeeperMessages, SignalsFromInsideDoNothingToTheKeeper)
{
    KeeperProcess keeper;
    KeeperClient client = keeper.client();
    const std::string pid = std::to_string(keeper.child().pid());
    keeper.run(client, keeper.shell(1, "for s in HUP INT QUIT TERM USR1 PIPE ALRM CHLD; do kill -$s " + pid +
                                           "; done"));
    EXPECT_TRUE(client.ping());
}

TEST(KeeperMessages, AsPidOneItCannotBeKilledFromInsideAndTakesEverybodyWithIt)
{
    TempDir dir;
    const UniqueFd listener = must(sys::listen_at(dir.fd(), "socket", sys::SocketKind::SeqPacket));
    const bool root = ::getuid() == 0;
    // In a user namespace without a map everybody, we too, has the overflow id.
    const unsigned id = root ? 0 : 65534;
    const unsigned long namespaces = CLONE_NEWPID | (root ? 0UL : CLONE_NEWUSER);
    std::optional<sys::Child> child;
    try {
        child = start_keeper({"k", "test", std::to_string(id)}, listener.get(), {}, {0, 1, 2}, namespaces);
    } catch (const std::exception&) {
        GTEST_SKIP() << "needs user namespaces: sysctl -w user.max_user_namespaces=1000";
    }
    KeeperClient client = must(KeeperClient::connect(dir.fd(), "socket", 10s));
    KeeperExec what =
        KeeperProcess::shell(1, "kill -9 1; kill -TERM 1; (setsid sh -c 'echo $$; exec sleep 1000' &)");
    what.uid = what.gid = id;
    what.flags |= keeper::kNotify;
    const ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    const Launched launched = must(client.exec(what, log));
    ASSERT_TRUE(launched.started()) << launched.reason();
    EXPECT_EQ(launched.pid, 2) << "a number of the inside";
    EXPECT_EQ(must(client.wait_exit(1, 10s)), 0);
    EXPECT_TRUE(client.ping());
    EXPECT_EQ(must(client.list())[0].state, keeper::State::Exited) << "the daemon holds the pipe";
    must(client.stop());
    EXPECT_TRUE(must(child->wait()).success());
    ExecFollower follower = must(ExecFollower::read(must(ExecLog::open(dir.fd())), 0));
    EXPECT_EQ(read_all(follower).events.back().kind, ExecEvent::Kind::Closed) << "the daemon is dead";
}

} // namespace
} // namespace berth::local::test
