// The host's network position: its loopback, its abstract sockets, what lies beyond.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
#include "sandbox.hpp"

using namespace security;
using berth::UniqueFd;

namespace {

/// A listener of the host on a loopback; `port` is what the kernel chose.
struct Listener {
    UniqueFd fd;
    std::string port;
};

Listener listen_on(int family)
{
    Listener made{.fd = UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), .port = {}};
    sockaddr_storage storage{};
    storage.ss_family = static_cast<sa_family_t>(family);
    auto* in = reinterpret_cast<sockaddr_in*>(&storage);
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
    if (family == AF_INET)
        in->sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    else
        in6->sin6_addr = IN6ADDR_LOOPBACK_INIT;
    socklen_t size = family == AF_INET ? sizeof *in : sizeof *in6;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    if (!made.fd || ::bind(made.fd.get(), address, size) != 0 || ::listen(made.fd.get(), 8) != 0 ||
        ::getsockname(made.fd.get(), address, &size) != 0)
        return {};
    made.port = std::to_string(::ntohs(family == AF_INET ? in->sin_port : in6->sin6_port));
    return made;
}

/// A listener of the host on a unix socket; a name led by '@' is abstract.
UniqueFd listen_at(const std::string& name)
{
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(&address.sun_path[0], name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd.get(), 8) != 0)
        fd.reset();
    return fd;
}

int landlock_abi()
{
    return static_cast<int>(::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1 /* VERSION */));
}

} // namespace

TEST(network, reach_loopback_of_the_host)
{
    const Listener host = listen_on(AF_INET);
    ASSERT_TRUE(host.fd);
    EXPECT_EQ(answer("/probe tcp 127.0.0.1 " + host.port + "; /probe serve 127.0.0.1 " + host.port),
              "ECONNREFUSED\nok\n");
}

TEST(network, reach_loopback_of_the_host_by_ipv6)
{
    const Listener host = listen_on(AF_INET6);
    if (!host.fd) GTEST_SKIP() << "the host has no ::1; run: sysctl net.ipv6.conf.lo.disable_ipv6=0";
    EXPECT_EQ(answer("/probe tcp ::1 " + host.port + "; /probe serve ::1 " + host.port),
              "ECONNREFUSED\nok\n");
}

TEST(network, reach_abstract_socket_of_the_host)
{
    const std::string name = "@berth-security-" + std::to_string(::getpid());
    const UniqueFd host = listen_at(name);
    ASSERT_TRUE(host);
    EXPECT_EQ(answer("/probe unix " + name + "; /probe serve-unix " + name), "ECONNREFUSED\nok\n");
}

TEST(network, reach_abstract_socket_on_the_hosts_network)
{
    if (landlock_abi() < 6)
        GTEST_SKIP() << "needs landlock ABI 6 (Linux 6.12); uname -r tells which kernel this is";
    const std::string name = "@berth-security-host-" + std::to_string(::getpid());
    const UniqueFd host = listen_at(name);
    const Listener shared = listen_on(AF_INET);
    ASSERT_TRUE(host);
    EXPECT_EQ(answer("/probe unix " + name + "; /probe serve-unix " + name + "-own; /probe tcp 127.0.0.1 " +
                         shared.port,
                     {"--net", "host"}),
              "EPERM\nok\nok\n");
}

TEST(network, change_the_hosts_network_when_it_is_shared)
{
    Words options{"--net", "host"};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(
        answer("/probe add-address; /probe socket 2 3 1; /probe socket 17 3 0; /probe list-links", options),
        "EPERM\nEPERM\nEAFNOSUPPORT\nok\n");
}

TEST(network, reach_unix_socket_in_hidden_directory)
{
    const TempTree tree;
    const UniqueFd host = listen_at(tree.at("s"));
    ASSERT_TRUE(host);
    EXPECT_EQ(answer("/probe unix " + tree.at("s") + "; /probe serve-unix /tmp/s"), "ENOENT\nok\n");
}

TEST(network, reach_metadata_address)
{
    EXPECT_EQ(
        answer("/probe route 169.254.169.254 80; /probe route fd00:ec2::254 80; /probe route 127.0.0.1 80"),
        "ENETUNREACH\nENETUNREACH\nok\n");
}

TEST(network, resolve_names)
{
    EXPECT_EQ(
        answer("/probe route 1.1.1.1 53; /probe route 192.168.1.1 53; grep -c nameserver /etc/resolv.conf; "
               "getent hosts localhost >/dev/null && echo ok"),
        "ENETUNREACH\nENETUNREACH\n0\nok\n");
}

TEST(network, connect_by_literal_address)
{
    EXPECT_EQ(
        answer(
            "/probe tcp 93.184.216.34 443; /probe route 10.0.0.1 1; /probe route 2001:4860:4860::8888 443"),
        "ENETUNREACH\nENETUNREACH\nENETUNREACH\n");
}

TEST(network, find_another_interface)
{
    EXPECT_EQ(answer("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo\n");
}

TEST(network, add_address_or_interface)
{
    EXPECT_EQ(answer("/probe add-address; /probe list-links", mightiest()), "EPERM\nok\n");
}

TEST(network, open_packet_and_raw_sockets)
{
    EXPECT_EQ(answer("/probe socket 17 3 0; /probe socket 17 2 0; /probe socket 2 3 1; /probe socket 10 3 "
                     "58; /probe socket "
                     "2 1 0",
                     mightiest()),
              "EAFNOSUPPORT\nEAFNOSUPPORT\nEPERM\nEPERM\nok\n");
}

TEST(network, open_vsock_and_rare_families)
{
    // VSOCK, ALG, BLUETOOTH, XDP, CAN, TIPC, RDS, KEY, X25, AX25, IPX, PPPOX, NFC, KCM, QIPCRTR, SMC.
    EXPECT_EQ(answer("for f in 40 38 31 44 29 30 21 15 9 3 4 24 39 41 42 43; do /probe socket $f 2 0; /probe "
                     "socket $f 5 0; "
                     "done | sort -u; /probe socket 1 1 0; /probe socket 10 2 0",
                     mightiest()),
              "EAFNOSUPPORT\nok\nok\n");
}

TEST(network, open_rare_families_by_socketpair)
{
    // The kernel loads a family's module before it finds that it has no pairs. AF_INET shows who refused.
    EXPECT_EQ(
        answer(
            "for f in 2 10 16 17 30 38 40; do /probe socketpair $f 2; done | sort -u; /probe socketpair 1 1",
            mightiest()),
        "EAFNOSUPPORT\nok\n");
}

TEST(network, talk_to_kernel_by_netlink)
{
    // AUDIT, NETFILTER, XFRM, KOBJECT_UEVENT, CONNECTOR, GENERIC, SOCK_DIAG; ROUTE is what programs need.
    EXPECT_EQ(
        answer("for p in 9 12 6 15 11 16 4; do /probe socket 16 3 $p; done | sort -u; /probe socket 16 3 0",
               mightiest()),
        "EAFNOSUPPORT\nok\n");
}
