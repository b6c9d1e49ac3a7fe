// The network. Whether there is a way somewhere is asked by connecting a datagram socket, which looks up a
// route and sends nothing; packets only go to listeners of those who ask, on a loopback.

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "prober.hpp"

namespace prober {
namespace {

constexpr int kPatience = 2000; // ms

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address internet(const char* host, int port)
{
    Address out;
    if (std::strchr(host, ':') != nullptr) {
        sockaddr_in6 in{};
        in.sin6_family = AF_INET6;
        in.sin6_port = htons(static_cast<unsigned short>(port));
        ::inet_pton(AF_INET6, host, &in.sin6_addr);
        std::memcpy(&out.storage, &in, out.size = sizeof in);
    } else {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = htons(static_cast<unsigned short>(port));
        ::inet_pton(AF_INET, host, &in.sin_addr);
        std::memcpy(&out.storage, &in, out.size = sizeof in);
    }
    return out;
}

/// A path, or an abstract name led by '@'.
Address local(const char* name)
{
    Address out;
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    std::snprintf(un.sun_path, sizeof un.sun_path, "%s", name);
    const std::size_t length = std::strlen(un.sun_path);
    const bool abstract = un.sun_path[0] == '@';
    if (abstract) un.sun_path[0] = '\0';
    out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + (abstract ? 0 : 1));
    std::memcpy(&out.storage, &un, sizeof un);
    return out;
}

/// No such way, no such address, or forbidden: what a wall says, and no listener.
bool no_way(int error)
{
    return error == ENETUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == EPERM ||
           error == EACCES;
}

/// A connected stream, or -1 with errno; gives up after a while.
int dial(const Address& to)
{
    const int fd = ::socket(to.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    int error = ::connect(fd, to.get(), to.size) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        pollfd waiting{fd, POLLOUT, 0};
        socklen_t size = sizeof error;
        if (::poll(&waiting, 1, kPatience) == 1)
            ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        else
            error = ETIMEDOUT;
    }
    if (error == 0) return fd;
    ::close(fd);
    errno = error;
    return -1;
}

/// Whether the other end says the word that only the listener outside knows.
bool says(int fd, const char* word)
{
    pollfd waiting{fd, POLLIN, 0};
    char text[128] = {};
    return ::poll(&waiting, 1, kPatience) == 1 && ::recv(fd, text, sizeof text - 1, 0) > 0 &&
           std::strstr(text, word) != nullptr;
}

/// `sure`: the listener certainly listens, so that nothing but a wall explains the refusal.
void connect_stream(const Address& to, const char* word, Answer& answer)
{
    const int fd = dial(to);
    if (fd < 0) return refused(answer, "connecting", errno, *word != '\0' || no_way(errno));
    const bool theirs = *word == '\0' || says(fd, word);
    ::close(fd);
    if (theirs) return permitted(answer, "connected");
    say(answer, Outcome::Refused, true, "somebody else answers there");
}

void tcp(const Words& w, Answer& answer) { connect_stream(internet(w[0], std::atoi(w[1])), w[2], answer); }
void unix_stream(const Words& w, Answer& answer) { connect_stream(local(w[0]), w[1], answer); }

void udp(const Words& w, Answer& answer)
{
    const Address to = internet(w[0], std::atoi(w[1]));
    const int fd = ::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ::connect(fd, to.get(), to.size) != 0 || ::send(fd, "berth", 5, 0) < 0)
        return refused(answer, "sending", errno, true);
    if (says(fd, w[2])) return permitted(answer, "sent, and answered");
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && ::send(fd, "berth", 5, 0) < 0) error = errno;
    refused(answer, "being answered", error == 0 ? ECONNREFUSED : error, true);
}

void route(const Words& w, Answer& answer)
{
    const Address to = internet(w[0], std::atoi(w[1]));
    const int fd = ::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ::connect(fd, to.get(), to.size) != 0)
        return refused(answer, "finding a way", errno, no_way(errno));
    say(answer, Outcome::Permitted, true, "a way leads there");
}

/// Interfaces that are up, beside the loopback.
void interfaces(const Words&, Answer& answer)
{
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 && no_way(errno)) return refused(answer, "making a socket", errno, true);
    struct if_nameindex* const all = ::if_nameindex();
    if (all == nullptr || fd < 0) return say(answer, Outcome::Unclear, false, "they cannot be listed");
    char names[100] = {};
    std::size_t used = 0;
    for (const struct if_nameindex* one = all; one->if_index != 0; ++one) {
        ifreq ask{};
        std::snprintf(ask.ifr_name, sizeof ask.ifr_name, "%s", one->if_name);
        if (::ioctl(fd, SIOCGIFFLAGS, &ask) != 0 || (ask.ifr_flags & IFF_UP) == 0 ||
            (ask.ifr_flags & IFF_LOOPBACK) != 0)
            continue;
        if (used < sizeof names - 20)
            used += static_cast<std::size_t>(
                std::snprintf(names + used, sizeof names - used, " %s", one->if_name));
    }
    if (used > 0) return say(answer, Outcome::Permitted, true, "up:%s", names);
    say(answer, Outcome::Refused, true, "nothing but a loopback");
}

/// A server and its client, both inside.
void talk(Address address, Answer& answer)
{
    const int family = address.get()->sa_family;
    const int server = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || ::bind(server, address.get(), address.size) != 0 || ::listen(server, 1) != 0)
        return refused(answer, "listening", errno, false);
    ::getsockname(server, address.get(), &address.size);
    const int client = dial(address);
    if (client < 0) return refused(answer, "connecting to ourselves", errno, false);
    const int peer = ::accept(server, nullptr, nullptr);
    if (peer < 0 || ::send(peer, "berth", 5, 0) != 5 || !says(client, "berth"))
        return refused(answer, "talking to ourselves", errno, false);
    permitted(answer, "talked to ourselves");
}

void loopback(const Words& w, Answer& answer) { talk(internet(w[0], 0), answer); }
void own_unix(const Words&, Answer& answer)
{
    char name[64];
    std::snprintf(name, sizeof name, "@berth-own-%s-%d", token(), ::getpid());
    talk(local(name), answer);
}

/// Packets of one's own making.
void raw(const Words&, Answer& answer)
{
    for (const int family : {AF_PACKET, AF_INET}) {
        const int fd = ::socket(family, SOCK_RAW | SOCK_CLOEXEC, family == AF_INET ? IPPROTO_RAW : 0);
        if (fd >= 0) return permitted(answer, family == AF_PACKET ? "a packet socket" : "a raw socket");
    }
    refused(answer, "making packet and raw sockets", errno, true);
}

constexpr Entry kEntries[] = {
    {"tcp", tcp},           {"udp", udp},           {"unix", unix_stream}, {"route", route},
    {"loopback", loopback}, {"own-unix", own_unix}, {"raw", raw},          {"interfaces", interfaces},
};

} // namespace

Entries network_acts() { return {kEntries, sizeof kEntries / sizeof kEntries[0]}; }

} // namespace prober
