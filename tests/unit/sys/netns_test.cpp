#include "sys/netns.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "sys/caps.hpp"

namespace berth::sys {
namespace {

#define NEEDS_ROOT()                                                                                         \
    if (!has_cap(CAP_SYS_ADMIN))                                                                             \
    GTEST_SKIP() << "network namespaces outside of a user namespace need root: sudo ctest -R NetNamespace"

ino_t inode_of(int fd)
{
    struct stat st{};
    EXPECT_EQ(::fstat(fd, &st), 0);
    return st.st_ino;
}

ino_t our_network()
{
    const UniqueFd ours(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    return inode_of(ours.get());
}

/// What `body` answers in a process inside the namespace.
template <class F> int inside(int network, F body)
{
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(::setns(network, CLONE_NEWNET) == 0 ? body() : 99);
    int status = -1;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int flags_of(const char* interface)
{
    const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strncpy(&request.ifr_name[0], interface, IFNAMSIZ - 1);
    return ::ioctl(fd, SIOCGIFFLAGS, &request) == 0 ? request.ifr_flags : 0;
}

TEST(NetNamespace, HasItsOwnLoopbackUpAndNothingElse)
{
    NEEDS_ROOT();
    const auto made = make_net_namespace();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(inside(made->get(), [] { return (flags_of("lo") & IFF_UP) != 0 ? 0 : 1; }), 0);
    const auto others = [] {
        int count = 0;
        if (struct if_nameindex* all = ::if_nameindex()) {
            for (auto* i = all; i->if_index != 0; ++i)
                if (std::string_view(i->if_name) != "lo" && (flags_of(i->if_name) & IFF_UP) != 0) ++count;
            ::if_freenameindex(all);
        }
        return count;
    };
    EXPECT_EQ(inside(made->get(), others), 0);
}

TEST(NetNamespace, ReachesNothingOutside)
{
    NEEDS_ROOT();
    const auto made = make_net_namespace();
    ASSERT_TRUE(made) << made.error().line();
    const auto connects = [] {
        const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(53);
        address.sin_addr.s_addr = ::inet_addr("192.0.2.1"); // of documentation, and no packet is sent
        const int r = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        return r == 0 ? 1 : errno == ENETUNREACH ? 0 : 2;
    };
    EXPECT_EQ(inside(made->get(), connects), 0);
}

TEST(NetNamespace, LowPortsNeedNoCapability)
{
    NEEDS_ROOT();
    const auto made = make_net_namespace();
    ASSERT_TRUE(made) << made.error().line();
    const auto binds = [] {
        if (::setresuid(1000, 1000, 1000) != 0) return 2;
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(80);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : 1;
    };
    EXPECT_EQ(inside(made->get(), binds), 0);
}

TEST(NetNamespace, LeavesTheCallerWhereItWas)
{
    NEEDS_ROOT();
    const auto before = our_network();
    const auto made = make_net_namespace();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(our_network(), before);
    EXPECT_NE(inode_of(made->get()), before);
}

TEST(NetNamespace, AnOrdinaryUserIsToldSo)
{
    if (has_cap(CAP_SYS_ADMIN))
        GTEST_SKIP() << "needs an ordinary user: tools/dev/as-user ctest -R OrdinaryUser";
    const auto made = make_net_namespace();
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::Denied);
}

TEST(NetNamespacePool, NeverGivesOneTwice)
{
    NEEDS_ROOT();
    NetNamespacePool pool(2);
    EXPECT_EQ(pool.ready(), 0u);
    ASSERT_TRUE(pool.refill());
    EXPECT_EQ(pool.ready(), 2u);
    const auto first = pool.take();
    const auto second = pool.take();
    EXPECT_EQ(pool.ready(), 0u);
    const auto fresh = pool.take();
    ASSERT_TRUE(first && second && fresh);
    EXPECT_NE(inode_of(first->get()), inode_of(second->get()));
    EXPECT_NE(inode_of(second->get()), inode_of(fresh->get()));
    EXPECT_NE(inode_of(first->get()), inode_of(fresh->get()));
}

} // namespace
} // namespace berth::sys
