#pragma once

#include <functional>
#include <string>

#include "server/codex/ceiling.hpp"
#include "server/http/host.hpp"

namespace berth::codex {

struct ExecServerOptions {
    std::string data; ///< the state directory
    Ceiling ceiling;
    http::HostOptions host;
    std::string token; ///< that clients must know; empty: none
};

/// The exec-server as a program of its own, until a signal ends it: on a WebSocket at any path of `host`.
Task<Status> serve_sockets(ExecServerOptions options, std::function<void(std::uint16_t port)> ready);
/// On standard input and output, until the input ends.
Task<Status> serve_lines(ExecServerOptions options);

} // namespace berth::codex
