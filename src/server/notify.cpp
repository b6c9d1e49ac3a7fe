#include "server/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.hpp"

namespace berth::server {

void notify(std::string_view state)
{
    const char* const named = std::getenv("NOTIFY_SOCKET"); // NOLINT(concurrency-mt-unsafe): never set by us
    if (named == nullptr) return;
    const std::string_view where = named;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (where.size() < 2 || where.size() >= sizeof address.sun_path || (where[0] != '/' && where[0] != '@'))
        return;
    std::memcpy(address.sun_path, where.data(), where.size());
    if (where[0] == '@') address.sun_path[0] = '\0';
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) return;
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + where.size());
    (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&address), size);
}

} // namespace berth::server
