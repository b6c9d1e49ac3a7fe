#pragma once

#include <expected>
#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/task.hpp"

namespace berth::codex {

inline constexpr int kNotFound = -32004;
inline constexpr int kSessionAttached = -32010;

/// What a request is answered with where it fails.
struct RpcError {
    int code = -32603;
    std::string message;
};
using Answer = std::expected<json::Value, RpcError>;

[[nodiscard]] std::unexpected<RpcError> refuse(int code, std::string message);
/// Parameters that are missing or wrong, of process/* and the rest.
[[nodiscard]] std::unexpected<RpcError> bad_params(const Error& error);
/// The same of fs/*, which has codes of its own for some of them.
[[nodiscard]] std::unexpected<RpcError> bad_file_params(const Error& error);
/// A file operation that failed: the kernel's words, which clients look for.
[[nodiscard]] std::unexpected<RpcError> file_failed(const Error& error);
/// A command that could not be started.
[[nodiscard]] std::unexpected<RpcError> start_failed(const Error& error);

} // namespace berth::codex
