// Attempts on the network. Nothing here sends a packet beyond a loopback: whether there is a way is
// asked by connecting a datagram socket, which only looks up a route.

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "probe.hpp"

namespace probe {
namespace {

int number(const std::string& text) { return std::stoi(text, nullptr, 0); }

int make_socket(const Words& w)
{
    return outcome(::socket(number(w.at(0)), number(w.at(1)), number(w.at(2))));
}
int make_pair(const Words& w)
{
    int ends[2];
    return outcome(::socketpair(number(w.at(0)), number(w.at(1)), 0, ends));
}

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address internet(const std::string& host, int port)
{
    Address address;
    if (host.find(':') != std::string::npos) {
        auto& in = reinterpret_cast<sockaddr_in6&>(address.storage);
        in.sin6_family = AF_INET6;
        in.sin6_port = htons(static_cast<std::uint16_t>(port));
        ::inet_pton(AF_INET6, host.c_str(), &in.sin6_addr);
        address.size = sizeof in;
    } else {
        auto& in = reinterpret_cast<sockaddr_in&>(address.storage);
        in.sin_family = AF_INET;
        in.sin_port = htons(static_cast<std::uint16_t>(port));
        ::inet_pton(AF_INET, host.c_str(), &in.sin_addr);
        address.size = sizeof in;
    }
    return address;
}

/// A path, or an abstract name led by '@'.
Address local(const std::string& name)
{
    Address address;
    auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path, name.data(), name.size());
    if (name[0] == '@') un.sun_path[0] = '\0';
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    return address;
}

int dial(const Address& address, int type)
{
    const int fd = ::socket(address.get()->sa_family, type, 0);
    return fd < 0 ? errno : outcome(::connect(fd, address.get(), address.size));
}

int tcp(const Words& w) { return dial(internet(w.at(0), number(w.at(1))), SOCK_STREAM); }
int route(const Words& w) { return dial(internet(w.at(0), number(w.at(1))), SOCK_DGRAM); }
int unix_stream(const Words& w) { return dial(local(w.at(0)), SOCK_STREAM); }
int unix_datagram(const Words& w) { return dial(local(w.at(0)), SOCK_DGRAM); }

/// A server and its client in one process: the intended use.
int talk(const Address& address)
{
    const int family = address.get()->sa_family;
    const int server = ::socket(family, SOCK_STREAM, 0);
    if (server < 0 || ::bind(server, address.get(), address.size) != 0 || ::listen(server, 1) != 0)
        return errno;
    const int client = ::socket(family, SOCK_STREAM, 0);
    if (client < 0 || ::connect(client, address.get(), address.size) != 0) return errno;
    const int peer = ::accept(server, nullptr, nullptr);
    if (peer < 0 || ::write(client, "hi", 2) != 2) return errno;
    char text[2];
    return ::read(peer, text, 2) == 2 ? 0 : EIO;
}

int serve(const Words& w) { return talk(internet(w.at(0), number(w.at(1)))); }
int serve_unix(const Words& w) { return talk(local(w.at(0))); }

/// Adds the address 10.1.2.3 to the loopback, or asks for the list of interfaces.
int route_message(bool change)
{
    const int fd = ::socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (fd < 0) return errno;
    struct {
        nlmsghdr header;
        union {
            ifaddrmsg address;
            ifinfomsg info;
        };
        rtattr local;
        unsigned char bytes[4];
    } message{};
    message.header.nlmsg_len = sizeof message;
    if (change) {
        message.header.nlmsg_type = RTM_NEWADDR;
        message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
        message.address = {
            .ifa_family = AF_INET, .ifa_prefixlen = 8, .ifa_flags = 0, .ifa_scope = 0, .ifa_index = 1};
        message.local = {.rta_len = 8, .rta_type = IFA_LOCAL};
        std::memcpy(message.bytes, "\x0a\x01\x02\x03", 4);
        // The union is larger than an ifaddrmsg: the attribute must follow the smaller one.
        std::memcpy(reinterpret_cast<char*>(&message.address) + sizeof(ifaddrmsg), &message.local, 8);
        message.header.nlmsg_len = NLMSG_LENGTH(sizeof(ifaddrmsg)) + 8;
    } else {
        message.header.nlmsg_type = RTM_GETLINK;
        message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
        message.header.nlmsg_len = NLMSG_LENGTH(sizeof(ifinfomsg));
    }
    if (::send(fd, &message, message.header.nlmsg_len, 0) < 0) return errno;
    alignas(nlmsghdr) char answer[16384];
    const ssize_t n = ::recv(fd, answer, sizeof answer, 0);
    if (n < static_cast<ssize_t>(sizeof(nlmsghdr))) return n < 0 ? errno : EIO;
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
    if (header->nlmsg_type != NLMSG_ERROR) return 0;
    return -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
}
int add_address(const Words&) { return route_message(true); }
int list_links(const Words&) { return route_message(false); }

constexpr Entry kEntries[] = {
    {"socket", make_socket},    {"socketpair", make_pair},  {"tcp", tcp},
    {"route", route},           {"unix", unix_stream},      {"unix-datagram", unix_datagram},
    {"serve", serve},           {"serve-unix", serve_unix}, {"add-address", add_address},
    {"list-links", list_links},
};

} // namespace

std::span<const Entry> network_probes() { return kEntries; }

} // namespace probe
