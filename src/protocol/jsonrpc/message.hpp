#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.hpp"

/// JSON-RPC as Codex speaks it: one document a message, no "jsonrpc" member, no batches.
namespace berth::jsonrpc {

inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;

struct Limits {
    std::size_t bytes = std::size_t{64} << 20;
    std::size_t depth = 128;
    std::size_t values = 262'144;
};

using Id = std::variant<std::int64_t, std::string>;

struct Request {
    Id id;
    std::string method;
    json::Value params; ///< null where none were sent
};
struct Notification {
    std::string method;
    json::Value params;
};
struct Response {
    Id id;
    json::Value result;
};
struct ErrorResponse {
    Id id;
    std::int64_t code = 0;
    std::string message;
};
using Message = std::variant<Request, Notification, Response, ErrorResponse>;

/// Refuses what is no message: not JSON, a batch, a key twice, too large, too deep, too many values.
[[nodiscard]] Result<Message> decode(std::string_view text, const Limits& limits = {});

[[nodiscard]] std::string encode(const Request& request);
[[nodiscard]] std::string encode(const Notification& notification);
[[nodiscard]] std::string encode(const Response& response);
[[nodiscard]] std::string encode(const ErrorResponse& error);

/// How many values a document has, counted without building it; exact for a well-formed one.
[[nodiscard]] std::size_t count_values(std::string_view text);

} // namespace berth::jsonrpc
