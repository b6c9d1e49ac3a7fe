#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/exec_server/config.hpp"
#include "base/clock.hpp"

namespace berth::exec_server {

/// One WebSocket to a server, with a thread of its own. Whoever is at the other end is not trusted: what it
/// sends is bounded, and silence is noticed by pings.
class Socket {
public:
    /// Both on the socket's thread, one after the other; `broken` at most once, and last.
    struct Ears {
        std::function<void(std::string message)> message;
        std::function<void(Error why)> broken;
    };
    static constexpr std::size_t kMostMessage = std::size_t{64} << 20;

    /// Denied: the server refuses the token; Unavailable: nobody is there.
    [[nodiscard]] static Result<std::unique_ptr<Socket>> connect(const Config& config, Ears ears,
                                                                 SteadyTime until);
    Socket() = default;
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    /// Hangs up. Not on the socket's own thread.
    virtual ~Socket() = default;

    /// In the order of the calls; from any thread. What cannot be sent breaks the socket.
    virtual void send(std::string message) = 0;
};

} // namespace berth::exec_server
