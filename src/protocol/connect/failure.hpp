#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

/// How the Connect protocol tells that a call has failed.
namespace berth::connect {

enum class Status {
    Canceled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
};

struct Failure {
    Status status = Status::Unknown;
    std::string message;
};

[[nodiscard]] std::string_view to_string(Status status) noexcept;
/// Of a call with one answer.
[[nodiscard]] int http_status(Status status) noexcept;
/// What an error of ours is to a caller.
[[nodiscard]] Failure failure_of(const Error& error);
/// {"code":"not_found","message":"…"}
[[nodiscard]] json::Object document(const Failure& failure);
/// The payload of the envelope that ends a stream.
[[nodiscard]] std::string end_of_stream();
[[nodiscard]] std::string end_of_stream(const Failure& failure);

/// What the other side said: a body with a known word, else what the HTTP status stands for.
[[nodiscard]] Failure read_failure(int http_status, std::string_view body);
/// The error in the last envelope of a stream; nothing when it ended well, Invalid when it is no such thing.
[[nodiscard]] Result<std::optional<Failure>> read_end(std::string_view payload);
/// As an error of ours.
[[nodiscard]] Error error_of(const Failure& failure);

} // namespace berth::connect
