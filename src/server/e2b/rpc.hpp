#pragma once

#include <optional>
#include <string>

#include "protocol/connect/envelope.hpp"
#include "protocol/connect/failure.hpp"
#include "server/e2b/envd.hpp"

/// What all calls of the Connect protocol have in common.
namespace berth::e2b::rpc {

inline constexpr std::size_t kMessageLimit = std::size_t{16} << 20;

/// The one message of a call with one answer. Nothing: it was refused already, and told.
Task<std::optional<std::string>> unary_message(http::Exchange& exchange);
/// The one message of a call with a stream of answers.
Task<std::optional<std::string>> stream_message(http::Exchange& exchange);
/// True for a stream's content type; else it was refused already.
Task<bool> check_stream(http::Exchange& exchange);

Task<void> send_message(http::Exchange& exchange, std::string message);

/// Begins a stream of answers, of which the first follows at once; whatever fails from here on is told at its
/// end.
void begin_stream(http::Exchange& exchange);
/// Behind messages that were not sent yet, where there are some.
Task<void> end_stream(http::Exchange& exchange, std::optional<connect::Failure> failure = std::nullopt,
                      std::string before = {});

/// Of a stream: when a sign of life is due.
[[nodiscard]] std::chrono::seconds keepalive(const http::RequestHead& head);
/// Connect-Timeout-Ms. An error when it is not a number of at most ten digits.
[[nodiscard]] Result<std::optional<std::chrono::milliseconds>> timeout(const http::RequestHead& head);

/// Returns when streams of the sandbox must end, or the client has gone.
Task<void> interrupted(http::Exchange& exchange, EntryPtr entry);

} // namespace berth::e2b::rpc
