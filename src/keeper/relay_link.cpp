#include "keeper/relay_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "keeper/modes.hpp"

extern "C" void* memcpy(void* to, const void* from, std::size_t n);

namespace berth::keeper::link {
namespace {

constexpr int kTries = 2000; // of 5 ms: for a session that is just being started
constexpr int kFewTries = 20;
constexpr timespec kTry{0, 5'000'000};
constexpr timespec kPatience{10, 0}; // with a client that does not read
constexpr std::size_t kMostKept = kRelayFirstCredit + 2 * (kRelayPiece + sizeof(RelayHead));

int in = 0, out = 1;
int door = -1;        ///< of a session
char kept[kMostKept]; ///< frames of output that nobody has acknowledged
std::size_t kept_size = 0;
u64 acknowledged = 0; ///< what all before them cost

bool address_of(const char* path, sockaddr_un& address, std::uint32_t& size)
{
    address.sun_family = AF_UNIX;
    std::size_t n = 0;
    for (; path[n] != '\0'; ++n) {
        if (n + 1 >= sizeof address.sun_path) return false;
        address.sun_path[n] = path[n];
    }
    size = static_cast<std::uint32_t>(offsetof(sockaddr_un, sun_path) + n + 1);
    return true;
}

long new_socket() { return call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

bool put(int to, const void* bytes, std::size_t size)
{
    const char* from = static_cast<const char*>(bytes);
    while (size > 0) {
        const long n = call(SYS_write, to, from, size);
        if (n == -EINTR) continue;
        if (n <= 0) return false;
        from += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

bool send(const RelayHead& head, const void* bytes)
{
    // One write where that is possible: a piece of output costs one read elsewhere.
    const iovec parts[2] = {{const_cast<RelayHead*>(&head), sizeof head},
                            {const_cast<void*>(bytes), head.length}};
    const long n = call(SYS_writev, out, parts, head.length == 0 ? 1 : 2);
    if (n == static_cast<long>(sizeof head + head.length)) return true;
    if (n < 0 && n != -EINTR) return false;
    const std::size_t done = n < 0 ? 0 : static_cast<std::size_t>(n);
    if (done < sizeof head)
        return put(out, reinterpret_cast<const char*>(&head) + done, sizeof head - done) &&
               put(out, bytes, head.length);
    const std::size_t of_bytes = done - sizeof head;
    return put(out, static_cast<const char*>(bytes) + of_bytes, head.length - of_bytes);
}

bool is_output(RelayKind kind)
{
    return kind == RelayKind::Out || kind == RelayKind::Err || kind == RelayKind::Pty;
}

} // namespace

long open_session(const char* path)
{
    sockaddr_un address{};
    std::uint32_t size = 0;
    if (!address_of(path, address, size)) return -ENAMETOOLONG;
    const long fd = new_socket();
    if (fd < 0) return fd;
    if (const long bad = call(SYS_bind, fd, &address, size); bad < 0) return bad;
    if (const long bad = call(SYS_listen, fd, 4); bad < 0) return bad;
    door = static_cast<int>(fd);
    in = out = -1;
    return 0;
}

bool is_session() { return door >= 0; }
int listener() { return door; }
int hears() { return in; }

void drop_client()
{
    if (door < 0) return;
    close_fd(in);
    out = -1;
}

bool accept_client()
{
    const long fd = call(SYS_accept4, door, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return false;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (call(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0) {
        call(SYS_close, fd);
        return false;
    }
    // A client that does not read must not keep the next one out for ever.
    call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
    drop_client();
    in = out = static_cast<int>(fd);
    return true;
}

bool get(void* bytes, std::size_t size)
{
    char* to = static_cast<char*>(bytes);
    while (size > 0) {
        const long n = call(SYS_read, in, to, size);
        if (n == -EINTR) continue;
        if (n <= 0) return false;
        to += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

bool tell(RelayKind kind, u64 offset, const void* bytes, std::uint32_t size)
{
    const RelayHead head{size, kind, 0, offset};
    if (!is_session()) return send(head, bytes);
    if (is_output(kind)) {
        if (kept_size + sizeof head + size > kMostKept) return false; // credit is bounded: never
        memcpy(kept + kept_size, &head, sizeof head);
        memcpy(kept + kept_size + sizeof head, bytes, size);
        kept_size += sizeof head + size;
    }
    if (out >= 0 && !send(head, bytes)) drop_client();
    return true;
}

void acknowledge(u64 spent)
{
    std::size_t at = 0;
    while (at < kept_size) {
        const auto head = load<RelayHead>(kept + at);
        if (acknowledged + relay_cost(head.length) > spent) break;
        acknowledged += relay_cost(head.length);
        at += sizeof head + head.length;
    }
    if (at == 0) return;
    memcpy(kept, kept + at, kept_size - at); // forwards, to a lower place
    kept_size -= at;
}

void tell_again()
{
    if (!send({0, RelayKind::Again, 0, acknowledged}, nullptr) || !put(out, kept, kept_size)) drop_client();
}

} // namespace berth::keeper::link

namespace berth::keeper {

int attach_session(const char* path, bool waits)
{
    harden();
    sockaddr_un address{};
    std::uint32_t size = 0;
    if (!link::address_of(path, address, size)) return 125;
    const long fd = link::new_socket();
    if (fd < 0) return 125;
    for (int tries = 0; call(SYS_connect, fd, &address, size) < 0; ++tries) {
        if (tries >= (waits ? link::kTries : link::kFewTries)) return 125;
        call(SYS_nanosleep, &link::kTry, nullptr);
    }
    static char piece[kRelayInput];
    for (;;) {
        pollfd ends[2] = {{0, POLLIN, 0}, {static_cast<int>(fd), POLLIN, 0}};
        const long r = call(SYS_poll, ends, 2, -1);
        if (r == -EINTR) continue;
        if (r < 0) return 125;
        for (int i = 0; i < 2; ++i) {
            if (ends[i].revents == 0) continue;
            const long n = call(SYS_read, ends[i].fd, piece, sizeof piece);
            if (n == -EINTR) continue;
            if (n <= 0) return 0;
            if (!link::put(i == 0 ? static_cast<int>(fd) : 1, piece, static_cast<std::size_t>(n))) return 0;
        }
    }
}

} // namespace berth::keeper
