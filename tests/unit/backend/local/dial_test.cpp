#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gmock/gmock.h>

#include "backend/local/instance.hpp"
#include "backend_place.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class DialTest : public BackendPlace {
protected:
    /// A server inside that answers each connection with one line; returns when it listens.
    static void serve(const SandboxHandle& sandbox, const std::string& address, int port)
    {
        const std::string family = address.find(':') == std::string::npos ? "AF_INET" : "AF_INET6";
        ExecSpec server = shell("");
        server.argv = {
            "/usr/bin/python3", "-c",
            fmt::format("import socket\ns=socket.socket(socket.{})\ns.bind(('{}',{}))\ns.listen()\n"
                        "print('up',flush=True)\nwhile True:\n c,_=s.accept()\n"
                        " c.sendall(b'hello\\n')\n c.close()\n",
                        family, address, port)};
        const auto started = run_task(backend_->exec(sandbox, server));
        ASSERT_TRUE(started) << started.error().line();
        std::string out;
        for (std::uint64_t from = 0; out != "up\n";) {
            const auto events = run_task(backend_->read_events(sandbox, server.id, from, in(20s)));
            ASSERT_TRUE(events && !events->empty()) << out;
            for (const auto& event : *events) out += event.bytes;
            from = events->back().sequence + 1;
        }
    }
    static std::string read_line(int socket, std::chrono::milliseconds patience)
    {
        pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return "(nothing)";
        char text[16];
        const ssize_t n = ::read(socket, &text[0], sizeof text);
        return n < 0 ? "(error)" : std::string(&text[0], static_cast<std::size_t>(n));
    }
};

TEST_F(DialTest, ReachesAServerInside)
{
    const Made made;
    serve(made.handle, "127.0.0.1", 8080);
    const auto socket = run_task(backend_->dial(made.handle, 8080));
    ASSERT_TRUE(socket) << socket.error().line();
    EXPECT_EQ(read_line(socket->get(), 20s), "hello\n");
}

TEST_F(DialTest, ReachesOneThatKnowsIPv6Alone)
{
    const Made made;
    if (output_of(made.handle, "cat /proc/net/if_inet6") == "") GTEST_SKIP() << "no IPv6 here";
    serve(made.handle, "::1", 8081);
    const auto socket = run_task(backend_->dial(made.handle, 8081));
    ASSERT_TRUE(socket) << socket.error().line();
    EXPECT_EQ(read_line(socket->get(), 20s), "hello\n");
}

TEST_F(DialTest, NamesThePortNobodyListensOn)
{
    const Made made;
    const auto refused = run_task(backend_->dial(made.handle, 4711));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("port 4711 of sandbox " + made.handle.sandbox));
    EXPECT_EQ(run_task(backend_->dial(made.handle, 0)).error().code, Code::Invalid);
    const std::string id = make_sandbox_id(system_clock());
    const SandboxHandle nobody{.sandbox = id, .native = id};
    EXPECT_EQ(run_task(backend_->dial(nobody, 80)).error().code, Code::NotFound);
}

/// With few ports to choose from the kernel soon gives a connection the one it is going to.
TEST_F(DialTest, DoesNotTakeAConnectionToItselfForAServer)
{
    if (::geteuid() != 0) GTEST_SKIP() << "sets the ports of a namespace; as root: ./dev test";
    const Made made;
    const UniqueFd directory(
        ::open((dir_ + "/state/sandbox/" + made.handle.native).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto instance = read_instance(directory.get());
    ASSERT_TRUE(instance) << instance.error().line();
    std::jthread([&] {
        const UniqueFd network(
            ::open(fmt::format("/proc/{}/ns/net", instance->keeper.pid).c_str(), O_RDONLY | O_CLOEXEC));
        ASSERT_EQ(::setns(network.get(), CLONE_NEWNET), 0);
        const UniqueFd range(::open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::write(range.get(), "40000 40001", 11), 11);
    }).join();
    for (int i = 0; i < 8; ++i) {
        const auto refused = run_task(backend_->dial(made.handle, 40000));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::Unavailable);
    }
}

TEST_F(DialTest, APausedServerAnswersWhenItIsResumed)
{
    if (!backend_->capabilities().can(Operation::Pause)) GTEST_SKIP() << "no freezer";
    const Made made;
    serve(made.handle, "127.0.0.1", 8080);
    ASSERT_TRUE(run_task(backend_->pause(made.handle)));
    const auto socket = run_task(backend_->dial(made.handle, 8080));
    ASSERT_TRUE(socket) << socket.error().line();
    EXPECT_EQ(read_line(socket->get(), 200ms), "(nothing)");
    ASSERT_TRUE(run_task(backend_->resume(made.handle)));
    EXPECT_EQ(read_line(socket->get(), 20s), "hello\n");
}

} // namespace
} // namespace berth::local
