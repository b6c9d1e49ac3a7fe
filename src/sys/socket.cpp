// What a peer sends is hostile: the kernel puts descriptors into our table before we can look at
// them, so each is owned from the first moment and any doubt about the message closes them all.
#include "sys/socket.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

namespace berth::sys {
namespace {

using std::chrono::milliseconds;

int type_of(SocketKind kind) noexcept
{
    return (kind == SocketKind::SeqPacket ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC;
}

Result<sockaddr_un> address_of(int directory, const std::string& name)
{
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
        return fail(Code::Invalid, "'{}' is not a name for a socket", name);
    // thread-self, not self: a thread with a descriptor table of its own means its own numbers.
    const std::string path = fmt::format("/proc/thread-self/fd/{}/{}", directory, name);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return fail(Code::Invalid, "socket name '{}' is too long", name);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

const sockaddr* generic(const sockaddr_un& address) noexcept
{
    return reinterpret_cast<const sockaddr*>(&address);
}

Status set_timeout(int socket, int option, milliseconds patience)
{
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
    const timeval value{.tv_sec = seconds.count(), .tv_usec = (patience - seconds).count() * 1000};
    if (::setsockopt(socket, SOL_SOCKET, option, &value, sizeof value) != 0)
        return fail_errno("setting a time-out on socket {}", socket);
    return {};
}

Result<ssize_t> send_once(int socket, std::string_view bytes, std::span<const int> fds)
{
    iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassedFds * sizeof(int))];
    if (!fds.empty()) {
        std::memset(control, 0, sizeof control);
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    for (;;) {
        const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent >= 0) return sent;
        if (errno == EINTR) continue;
        if (errno == EAGAIN) return fail(Code::DeadlineExceeded, "socket {} took no message in time", socket);
        if (errno == EMSGSIZE)
            return fail(Code::Invalid, "a message of {} bytes is too large for socket {}", bytes.size(),
                        socket);
        return fail_errno("sending {} bytes to socket {}", bytes.size(), socket);
    }
}

/// Owns every descriptor the kernel has put into our table with this message.
std::vector<UniqueFd> take_fds(msghdr& message)
{
    std::vector<UniqueFd> taken;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            taken.emplace_back(fd);
        }
    }
    return taken;
}

} // namespace

Result<UniqueFd> listen_at(int directory, const std::string& name, SocketKind kind, int backlog)
{
    BERTH_TRY(const auto address, address_of(directory, name));
    UniqueFd socket(::socket(AF_UNIX, type_of(kind), 0));
    if (!socket) return fail_errno("making a socket for {}", name);
    if (::bind(socket.get(), generic(address), sizeof address) != 0) {
        if (errno == EADDRINUSE) return fail(Code::Conflict, "socket {} already exists", name);
        return fail_errno("binding socket {}", name);
    }
    if (::listen(socket.get(), backlog) != 0) return fail_errno("listening on socket {}", name);
    return socket;
}

Result<UniqueFd> connect_at(int directory, const std::string& name, SocketKind kind, milliseconds patience)
{
    BERTH_TRY(const auto address, address_of(directory, name));
    UniqueFd socket(::socket(AF_UNIX, type_of(kind), 0));
    if (!socket) return fail_errno("making a socket for {}", name);
    BERTH_CHECK(set_timeout(socket.get(), SO_SNDTIMEO, patience)); // bounds connect(2) as well
    BERTH_CHECK(set_timeout(socket.get(), SO_RCVTIMEO, patience));
    while (::connect(socket.get(), generic(address), sizeof address) != 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN)
            return fail(Code::DeadlineExceeded, "socket {} accepted no connection in time", name);
        return fail_errno("connecting to socket {}", name);
    }
    return socket;
}

Result<UniqueFd> accept_from(int listener)
{
    for (;;) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        if (socket) return socket;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN)
            return fail(Code::DeadlineExceeded, "nobody connected to socket {} in time", listener);
        return fail_errno("accepting on socket {}", listener);
    }
}

Result<std::pair<UniqueFd, UniqueFd>> socket_pair(SocketKind kind)
{
    int ends[2];
    if (::socketpair(AF_UNIX, type_of(kind), 0, ends) != 0) return fail_errno("making a pair of sockets");
    return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Status set_receive_timeout(int socket, milliseconds patience)
{
    return set_timeout(socket, SO_RCVTIMEO, patience);
}

Result<PeerCredentials> peer_credentials(int socket)
{
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return fail_errno("asking who is behind socket {}", socket);
    return PeerCredentials{.pid = peer.pid, .uid = peer.uid, .gid = peer.gid};
}

Status send_message(int socket, std::string_view bytes, std::span<const int> fds)
{
    if (bytes.empty()) return fail(Code::Invalid, "an empty message to socket {}", socket);
    if (fds.size() > kMaxPassedFds)
        return fail(Code::Invalid, "{} descriptors in one message to socket {}, at most {} go", fds.size(),
                    socket, kMaxPassedFds);
    while (!bytes.empty()) {
        BERTH_TRY(const ssize_t sent, send_once(socket, bytes, fds));
        bytes.remove_prefix(static_cast<std::size_t>(sent));
        fds = {};
    }
    return {};
}

Result<Message> receive_message(int socket, Bytes limit, std::size_t max_fds)
{
    max_fds = std::min(max_fds, kMaxPassedFds);
    Message out;
    out.bytes.resize(limit.count);
    iovec part{.iov_base = out.bytes.data(), .iov_len = out.bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassedFds * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    // CMSG_LEN, not CMSG_SPACE: the padding after an odd number would let one more in.
    message.msg_controllen = max_fds == 0 ? 0 : CMSG_LEN(max_fds * sizeof(int));
    ssize_t got = -1;
    while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN) return fail(Code::DeadlineExceeded, "no message on socket {} in time", socket);
        return fail_errno("receiving from socket {}", socket);
    }
    out.fds = take_fds(message);
    if (got == 0) return Message{};
    if ((message.msg_flags & MSG_TRUNC) != 0)
        return fail(Code::Invalid, "a message on socket {} is larger than {} bytes", socket, limit.count);
    if ((message.msg_flags & MSG_CTRUNC) != 0)
        return fail(Code::Invalid,
                    "a message on socket {} carries more than {} descriptors, or our table is full", socket,
                    max_fds);
    out.bytes.resize(static_cast<std::size_t>(got));
    return out;
}

} // namespace berth::sys
