// What is on the other end is the owner outside: the socket lies in a directory of his that is not
// visible inside, and the peer's uid is checked all the same.

#include "keeper/clients.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "keeper/time.hpp"
#include "keeper/wire_program.hpp"

namespace berth::keeper {

int clients[kMaxClients];
int client_high = 0;

namespace {

constexpr int kMaxPeers = 4;
std::uint32_t peers[kMaxPeers];
int peer_count = 0;
bool only_outside = false;

struct Follower {
    u64 exec; ///< 0: free
    int client;
    int eventfd;
};
Follower followers[kMaxFollowers];
int follower_high = 0;

bool allowed(int socket)
{
    ucred peer{};
    socklen_t size = sizeof peer;
    if (call(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return false;
    // The kernel shows a process that our pid namespace does not have as 0.
    if (only_outside && peer.pid != 0) return false;
    for (int i = 0; i < peer_count; ++i)
        if (peers[i] == peer.uid) return true;
    return false;
}

void send(int client, const void* bytes, std::size_t length)
{
    call(SYS_sendto, clients[client] - 1, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
}

Reply make_reply(Type type, u64 request, u64 exec)
{
    Reply r{};
    r.header = {static_cast<std::uint32_t>(type), sizeof r, request};
    r.version = kVersion;
    r.exec = exec;
    return r;
}

void send_err(int client, u64 request, u64 exec, Step step, long error)
{
    Reply r = make_reply(Type::Err, request, exec);
    r.step = step;
    r.error = static_cast<std::int32_t>(error < 0 ? -error : error);
    send(client, &r, sizeof r);
}

} // namespace

void allow_only_outside() { only_outside = true; }

void allow_peer(std::uint32_t uid)
{
    if (peer_count < kMaxPeers) peers[peer_count++] = uid;
}

bool accept_clients(int listener)
{
    for (;;) {
        int socket =
            static_cast<int>(call(SYS_accept4, listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket == -EINTR || socket == -ECONNABORTED) continue;
        if (socket < 0) return socket == -EAGAIN;
        int slot = 0;
        while (slot < kMaxClients && clients[slot] != 0) ++slot;
        if (slot == kMaxClients || !allowed(socket)) {
            close_fd(socket);
            continue;
        }
        clients[slot] = socket + 1;
        if (slot >= client_high) client_high = slot + 1;
    }
}

void drop_client(int client)
{
    for (int i = 0; i < exec_high; ++i)
        if (execs[i].owner == client) execs[i].owner = -1;
    for (int i = 0; i < follower_high; ++i)
        if (followers[i].exec != 0 && followers[i].client == client) {
            followers[i].exec = 0;
            close_fd(followers[i].eventfd);
        }
    forget_time(client);
    call(SYS_close, clients[client] - 1);
    clients[client] = 0;
}

bool receive(int client, char* room, Message& m)
{
    iovec data{room, kMaxMessage};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof m.fd)];
    msghdr h{};
    h.msg_iov = &data;
    h.msg_iovlen = 1;
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    const long n = call(SYS_recvmsg, clients[client] - 1, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n == -EAGAIN || n == -EINTR) return false;
    m.fd_count = 0;
    if (n > 0 && h.msg_controllen >= CMSG_LEN(sizeof(int))) {
        const auto* c = reinterpret_cast<const cmsghdr*>(control);
        // The kernel puts all descriptors of a datagram into one block.
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            m.fd_count = static_cast<std::uint32_t>((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            __builtin_memcpy(m.fd, CMSG_DATA(c), m.fd_count * sizeof(int));
        }
    }
    if (n <= 0) {
        drop_client(client);
        return false;
    }
    m.client = client;
    m.bytes = room;
    m.length = static_cast<std::size_t>(n);
    m.header = m.length >= sizeof(Header) ? load<Header>(room) : Header{};
    int bad = h.msg_flags & MSG_TRUNC ? EMSGSIZE : 0;
    // Too many descriptors for our table or for the message: some were lost on the way.
    if (bad == 0 && (h.msg_flags & MSG_CTRUNC)) bad = EMFILE;
    m.program = -1;
    m.named = bad == 0 && take_named_flag(room, m.length);
    if (bad == 0 && take_program_flag(room, m.length, m.fd_count)) m.program = m.fd[--m.fd_count];
    if (bad == 0) bad = check_request(room, m.length, m.fd_count);
    if (bad == 0) return true;
    close_descriptors(m);
    send_err(client, m.header.request, 0, Step::Request, bad);
    return false;
}

void close_descriptors(Message& m)
{
    for (std::uint32_t i = 0; i < m.fd_count; ++i) close_fd(m.fd[i]);
    close_fd(m.program);
    m.fd_count = 0;
}

void reply_ok(const Message& m, u64 exec, u64 value)
{
    Reply r = make_reply(Type::Ok, m.header.request, exec);
    r.value = value;
    send(m.client, &r, sizeof r);
}

void reply_err(const Message& m, u64 exec, Step step, long error)
{
    send_err(m.client, m.header.request, exec, step, error);
}

void reply_descriptor(const Message& m, int fd, int error)
{
    Reply r = make_reply(Type::Ok, m.header.request, 0);
    r.error = error;
    iovec data{&r, sizeof r};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr h{};
    h.msg_iov = &data;
    h.msg_iovlen = 1;
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    auto* c = reinterpret_cast<cmsghdr*>(control);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    __builtin_memcpy(CMSG_DATA(c), &fd, sizeof fd);
    call(SYS_sendmsg, clients[m.client] - 1, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void reply_list(const Message& m)
{
    ItemsReply page;
    page.header = {static_cast<std::uint32_t>(Type::Item), 0, m.header.request};
    page.version = kVersion;
    page.count = 0;
    const auto flush = [&] {
        if (page.count == 0) return;
        page.header.length = static_cast<std::uint32_t>(kItemsHead + page.count * sizeof(Item));
        send(m.client, &page, page.header.length);
        page.count = 0;
    };
    for (int i = 0; i < exec_high; ++i) {
        const Exec& x = execs[i];
        if (x.state == State::Unknown) continue;
        page.items[page.count++] = {
            x.id, x.records, {x.bytes[0], x.bytes[1]}, x.lost, x.write, x.pid, x.status, x.state, x.flags};
        if (page.count == kItemsPerMessage) flush();
    }
    flush();
    const Reply end = make_reply(Type::End, m.header.request, 0);
    send(m.client, &end, sizeof end);
}

void tell_started(const Exec& x, Step step, long error)
{
    if (x.owner < 0) return;
    if (step != Step::None) return send_err(x.owner, x.request, x.id, step, error);
    Reply r = make_reply(Type::Ok, x.request, x.id);
    r.value = static_cast<u64>(x.pid);
    send(x.owner, &r, sizeof r);
}

void tell_exit(const Exec& x)
{
    if (x.owner < 0 || !(x.flags & kNotify)) return;
    Reply r = make_reply(Type::Exit, x.request, x.id);
    r.status = x.status;
    send(x.owner, &r, sizeof r);
}

long add_follower(int client, u64 exec, int eventfd)
{
    // A write to a blocking eventfd whose counter is full would hold the keeper.
    const long flags = call(SYS_fcntl, eventfd, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK)) return -EINVAL;
    Follower* slot = nullptr;
    for (int i = 0; i < follower_high; ++i) {
        Follower& f = followers[i];
        if (f.exec == exec && f.client == client) {
            call(SYS_close, f.eventfd);
            f.eventfd = eventfd;
            return 0;
        }
        if (f.exec == 0 && slot == nullptr) slot = &f;
    }
    if (slot == nullptr && follower_high < kMaxFollowers) slot = &followers[follower_high++];
    if (slot == nullptr) return -EAGAIN;
    *slot = {exec, client, eventfd};
    return 0;
}

void wake_followers(u64 exec)
{
    const u64 one = 1;
    for (int i = 0; i < follower_high; ++i)
        if (followers[i].exec == exec) call(SYS_write, followers[i].eventfd, &one, sizeof one);
}

} // namespace berth::keeper
