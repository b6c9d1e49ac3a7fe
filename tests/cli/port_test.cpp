// `berth port`: connections of this machine to a program inside a sandbox without a network.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "cli/box.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using ::testing::HasSubstr;

/// Answers each connection with what it was sent, in capitals, once the sender has ended.
constexpr const char* kServer = R"(
import socket, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 7000)); s.listen(64); print("up", flush=True)
def serve(c):
    data = b""
    while True:
        piece = c.recv(65536)
        if not piece: break
        data += piece
    c.sendall(data.upper()); c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
)";

bool has_python() { return ::access("/usr/bin/python3", X_OK) == 0; }

#define BERTH_NEEDS_PYTHON()                                                                                 \
    if (!has_python()) GTEST_SKIP() << "needs python3: apt-get install python3"

UniqueFd connect_to(std::uint16_t port)
{
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return {};
    return fd;
}

std::string converse(std::uint16_t port, const std::string& bytes)
{
    const UniqueFd fd = connect_to(port);
    if (!fd) return "no connection";
    std::thread writer([&] {
        for (std::size_t at = 0; at < bytes.size();) {
            const ssize_t n = ::send(fd.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
            if (n <= 0) break;
            at += static_cast<std::size_t>(n);
        }
        ::shutdown(fd.get(), SHUT_WR);
    });
    std::string answer;
    std::string buffer(65536, '\0');
    for (ssize_t n = 0; (n = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;)
        answer.append(buffer, 0, static_cast<std::size_t>(n));
    writer.join();
    return answer;
}

std::uint16_t port_of(const std::string& said)
{
    return static_cast<std::uint16_t>(std::stoi(said.substr(said.rfind(':') + 1)));
}

/// A sandbox with the server in it, and `berth port` before it.
struct Served {
    Box box{};
    Started server{{.args = box.words({}, {"python3", "-c", kServer})}};
    bool up = server.wait_for("up");
    Started port{{.args = {"port", box.id(), "7000"}}};
    bool listening = port.wait_for("\n");

    std::uint16_t number = port_of(port.said());
};

TEST(Port, PassesConnectionsOnWithTheirEnds)
{
    BERTH_NEEDS_PYTHON();
    Served served;
    ASSERT_TRUE(served.up && served.listening);
    EXPECT_EQ(converse(served.number, "hello"), "HELLO");
    EXPECT_EQ(converse(served.number, ""), "");
    const std::string large(3 << 20, 'x');
    EXPECT_TRUE(converse(served.number, large) == std::string(3 << 20, 'X'));
    served.port.signal(SIGINT);
    EXPECT_EQ(served.port.finish().code, 0);
}

TEST(Port, ServesManyAtOnce)
{
    BERTH_NEEDS_PYTHON();
    Served served;
    ASSERT_TRUE(served.up && served.listening);
    const UniqueFd idle = connect_to(served.number); // one that says nothing disturbs nobody
    std::vector<std::thread> clients;
    std::atomic<int> right = 0;
    for (int i = 0; i < 20; ++i)
        clients.emplace_back([&, i] {
            if (converse(served.number, "c" + std::to_string(i)) == "C" + std::to_string(i)) ++right;
        });
    for (auto& client : clients) client.join();
    EXPECT_EQ(right, 20);
    served.port.signal(SIGINT);
    EXPECT_EQ(served.port.finish().code, 0) << "also with a connection open";
}

TEST(Port, ClosesAConnectionToNobodyAndListensOn)
{
    const Box box{};
    Started port({.args = {"port", box.id(), "7001"}});
    ASSERT_TRUE(port.wait_for("\n"));
    const auto number = port_of(port.said());
    EXPECT_EQ(converse(number, "a"), "");
    EXPECT_EQ(converse(number, "b"), "");
    port.signal(SIGTERM);
    const auto ended = port.finish();
    EXPECT_EQ(ended.code, 0);
    EXPECT_THAT(ended.err, HasSubstr("nothing listens on port 7001"));
}

TEST(Port, JoinsStdinAndStdout)
{
    BERTH_NEEDS_PYTHON();
    Served served;
    ASSERT_TRUE(served.up);
    const auto ended = run({.args = {"port", "--stdio", served.box.id(), "7000"}, .input = "typed"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, "TYPED");
}

TEST(Port, RefusesWhatIsNoAddress)
{
    const Box box{};
    EXPECT_EQ(berth({"port", box.id(), "0"}).code, 2);
    EXPECT_EQ(berth({"port", box.id(), "80", "--listen", "nowhere:80"}).code, 2);
    EXPECT_EQ(berth({"port", "nobody", "80"}).code, 3);
}

} // namespace
} // namespace berth::test
