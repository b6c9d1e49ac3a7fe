#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/backend.hpp"
#include "server/http/channel.hpp"
#include "server/http/exchange.hpp"

/// Traffic to a port of a sandbox: its program is as little trusted as its client.
namespace berth::gate {

enum class PortSpeaks { Plain, Tls };

/// A connection to a program inside. One that has just been started may not listen yet: it is waited for a
/// moment. An error: nobody listens, or not in what it is said to speak.
Task<Result<std::unique_ptr<http::Channel>>>
dial_port(Backend& backend, SandboxHandle sandbox, std::uint16_t port, PortSpeaks speaks = PortSpeaks::Plain);

/// What of a request the program sees, and what the client sees of us.
struct PortRequest {
    std::string target;  ///< path and query
    std::string host{};  ///< instead of the name that was asked for; empty: that one
    http::Pairs added{}; ///< to the head of each answer
    /// Of a header: it is for us, and not passed on.
    std::function<bool(std::string_view name, std::string_view value)> for_us;
    /// What the client gets where the program gives no answer.
    std::function<http::Response(std::string why)> refusal;
};

/// Passes the request on and its answer back, both as they come: an answer may come before the body was sent,
/// and may turn the connection into one of another protocol. A program that stands still for too long is
/// given up.
Task<void> pass_request(http::Exchange& exchange, http::Channel& inside, const PortRequest& request);

/// Bytes both ways, behind an answer 101, until both sides have ended.
Task<void> pass_stream(http::Exchange& exchange, http::Channel& inside);

} // namespace berth::gate
