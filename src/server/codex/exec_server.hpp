#pragma once

#include <functional>
#include <optional>
#include <string>

#include "berth/berth.hpp"
#include "server/codex/ceiling.hpp"
#include "server/http/host.hpp"

namespace berth::codex {

struct ExecServerOptions {
    Berth* berth = nullptr;                ///< borrowed
    Ceiling ceiling;                       ///< of this host
    std::string sandbox;                   ///< where commands run instead; empty: not in one that is there
    std::optional<AcquireRequest> session; ///< of each session's own sandbox; nothing: this host
    http::HostOptions host;
    std::string token; ///< that clients must know; empty: none
};

/// The exec-server as a program of its own, until a signal ends it: on a WebSocket at any path of `host`.
Task<Status> serve_sockets(ExecServerOptions options, std::function<void(std::uint16_t port)> ready);
/// On standard input and output, until the input ends.
Task<Status> serve_lines(ExecServerOptions options);

} // namespace berth::codex
