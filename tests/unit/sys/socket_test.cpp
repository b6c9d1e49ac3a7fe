#include "sys/socket.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "temp_dir.hpp"

namespace berth::sys {
namespace {

using namespace std::chrono_literals;

std::size_t open_descriptors()
{
    const std::unique_ptr<DIR, decltype([](DIR* d) { ::closedir(d); })> dir(::opendir("/proc/self/fd"));
    std::size_t count = 0;
    while (::readdir(dir.get())) ++count;
    return count;
}

TEST(Socket, WorksInADirectoryWhosePathIsTooLongForAnAddress)
{
    const TempDir top;
    UniqueFd dir(::dup(top.fd()));
    const std::string part(200, 'x');
    for (int i = 0; i < 30; ++i) { // 6000 bytes: beyond sun_path and beyond PATH_MAX
        ASSERT_EQ(::mkdirat(dir.get(), part.c_str(), 0700), 0);
        dir.reset(::openat(dir.get(), part.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        ASSERT_TRUE(dir);
    }
    const auto listener = listen_at(dir.get(), "keeper.sock", SocketKind::SeqPacket);
    ASSERT_TRUE(listener) << listener.error().line();
    const auto client = connect_at(dir.get(), "keeper.sock", SocketKind::SeqPacket, 10s);
    ASSERT_TRUE(client) << client.error().line();
    const auto server = accept_from(listener->get());
    ASSERT_TRUE(server);
    ASSERT_TRUE(send_message(client->get(), "hello"));
    EXPECT_EQ(receive_message(server->get(), 64_B)->bytes, "hello");
}

TEST(Socket, TellsWhoIsThere)
{
    const TempDir dir;
    const auto listener = listen_at(dir.fd(), "s", SocketKind::Stream);
    const auto client = connect_at(dir.fd(), "s", SocketKind::Stream, 10s);
    ASSERT_TRUE(listener && client);
    const auto server = accept_from(listener->get());
    const auto peer = peer_credentials(server->get());
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer->pid, ::getpid());
    EXPECT_EQ(peer->uid, ::geteuid());
}

TEST(Socket, RefusesNamesThatLeaveTheDirectory)
{
    const TempDir dir;
    for (const std::string& bad : {std::string("../s"), std::string("a/b"), std::string(""),
                                   std::string(".."), std::string("s\0x", 3), std::string(200, 'n')}) {
        const auto made = listen_at(dir.fd(), bad, SocketKind::Stream);
        ASSERT_FALSE(made) << bad;
        EXPECT_EQ(made.error().code, Code::Invalid) << bad;
    }
}

TEST(Socket, DoesNotTakeOverAnExistingName)
{
    const TempDir dir;
    const auto first = listen_at(dir.fd(), "s", SocketKind::Stream);
    const auto second = listen_at(dir.fd(), "s", SocketKind::Stream);
    ASSERT_TRUE(first);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::Conflict);
}

TEST(Socket, SaysWhyItCannotConnect)
{
    const TempDir dir;
    EXPECT_EQ(connect_at(dir.fd(), "none", SocketKind::Stream, 1s).error().code, Code::NotFound);
    {
        const auto gone = listen_at(dir.fd(), "dead", SocketKind::Stream);
    }
    EXPECT_EQ(connect_at(dir.fd(), "dead", SocketKind::Stream, 1s).error().code, Code::Unavailable);
}

TEST(Socket, NeverWaitsForAListenerThatDoesNotAccept)
{
    const TempDir dir;
    const auto listener = listen_at(dir.fd(), "s", SocketKind::SeqPacket, 0);
    const auto first = connect_at(dir.fd(), "s", SocketKind::SeqPacket, 20ms);
    ASSERT_TRUE(first); // fills the queue
    const auto second = connect_at(dir.fd(), "s", SocketKind::SeqPacket, 20ms);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::DeadlineExceeded);
    EXPECT_EQ(receive_message(first->get(), 16_B).error().code, Code::DeadlineExceeded);
    ASSERT_TRUE(set_receive_timeout(listener->get(), 20ms));
    ASSERT_TRUE(accept_from(listener->get()));
    EXPECT_EQ(accept_from(listener->get()).error().code, Code::DeadlineExceeded);
}

TEST(Socket, PassesDescriptorsThatCloseOnExec)
{
    auto [a, b] = *socket_pair(SocketKind::SeqPacket);
    const TempDir dir;
    dir.write("f", "content");
    const UniqueFd file(::open((dir / "f").c_str(), O_RDONLY | O_CLOEXEC));
    const int fds[] = {file.get(), dir.fd()};
    ASSERT_TRUE(send_message(a.get(), "two", fds));
    auto message = receive_message(b.get(), 64_B, 2);
    ASSERT_TRUE(message) << message.error().line();
    ASSERT_EQ(message->fds.size(), 2u);
    for (const auto& fd : message->fds) EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
    char text[8] = {};
    EXPECT_EQ(::read(message->fds[0].get(), text, sizeof text), 7);
    EXPECT_STREQ(text, "content");
}

TEST(Socket, ClosesEveryDescriptorOfAMessageItRefuses)
{
    auto [a, b] = *socket_pair(SocketKind::SeqPacket);
    const std::vector<int> fds(7, a.get());
    for (const std::size_t allowed : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{6}}) {
        const auto before = open_descriptors();
        ASSERT_TRUE(send_message(a.get(), "x", fds));
        const auto message = receive_message(b.get(), 64_B, allowed);
        ASSERT_FALSE(message) << allowed;
        EXPECT_EQ(message.error().code, Code::Invalid);
        EXPECT_EQ(open_descriptors(), before) << allowed;
    }
    const auto before = open_descriptors();
    ASSERT_TRUE(send_message(a.get(), "too long", fds));
    EXPECT_EQ(receive_message(b.get(), 4_B, 7).error().code, Code::Invalid);
    EXPECT_EQ(open_descriptors(), before);
}

TEST(Socket, AnEmptyPacketIsTheEndAndLeaksNothing)
{
    auto [a, b] = *socket_pair(SocketKind::SeqPacket);
    EXPECT_EQ(send_message(a.get(), "").error().code, Code::Invalid);
    // A hostile peer sends one all the same, with a descriptor in it.
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr raw{};
    raw.msg_control = control;
    raw.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&raw);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = a.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    ASSERT_EQ(::sendmsg(a.get(), &raw, 0), 0);
    const auto before = open_descriptors();
    const auto message = receive_message(b.get(), 64_B, 4);
    ASSERT_TRUE(message);
    EXPECT_TRUE(message->bytes.empty());
    EXPECT_TRUE(message->fds.empty());
    EXPECT_EQ(open_descriptors(), before);
}

TEST(Socket, RefusesToSendMoreDescriptorsThanTheKernelTakes)
{
    auto [a, b] = *socket_pair(SocketKind::SeqPacket);
    const std::vector<int> fds(kMaxPassedFds + 1, a.get());
    EXPECT_EQ(send_message(a.get(), "x", fds).error().code, Code::Invalid);
}

TEST(Socket, AClosedPeerIsAnErrorAndNoSignal)
{
    auto [a, b] = *socket_pair(SocketKind::Stream);
    b.reset();
    EXPECT_EQ(send_message(a.get(), "x").error().code, Code::Unavailable);
    EXPECT_TRUE(receive_message(a.get(), 16_B)->bytes.empty());
}

} // namespace
} // namespace berth::sys
