#include "protocol/connect/failure.hpp"

#include <array>

#include "base/json_reader.hpp"
#include "base/strings.hpp"

namespace berth::connect {

namespace {

struct Row {
    Status status;
    std::string_view word;
    int http;
    Code code;
};

constexpr std::array kRows{
    Row{Status::Canceled, "canceled", 499, Code::Unavailable},
    Row{Status::Unknown, "unknown", 500, Code::Internal},
    Row{Status::InvalidArgument, "invalid_argument", 400, Code::Invalid},
    Row{Status::DeadlineExceeded, "deadline_exceeded", 504, Code::DeadlineExceeded},
    Row{Status::NotFound, "not_found", 404, Code::NotFound},
    Row{Status::AlreadyExists, "already_exists", 409, Code::Conflict},
    Row{Status::PermissionDenied, "permission_denied", 403, Code::Denied},
    Row{Status::ResourceExhausted, "resource_exhausted", 429, Code::Exhausted},
    Row{Status::FailedPrecondition, "failed_precondition", 400, Code::Conflict},
    Row{Status::Aborted, "aborted", 409, Code::Conflict},
    Row{Status::OutOfRange, "out_of_range", 400, Code::Invalid},
    Row{Status::Unimplemented, "unimplemented", 501, Code::Unsupported},
    Row{Status::Internal, "internal", 500, Code::Internal},
    Row{Status::Unavailable, "unavailable", 503, Code::Unavailable},
    Row{Status::DataLoss, "data_loss", 500, Code::Internal},
    Row{Status::Unauthenticated, "unauthenticated", 401, Code::Denied},
};

const Row& row(Status status) noexcept { return kRows[static_cast<std::size_t>(status)]; }

std::optional<Status> by_word(std::string_view word)
{
    for (const auto& one : kRows)
        if (one.word == word) return one.status;
    return std::nullopt;
}

/// Of an answer that does not speak the protocol: a proxy's.
Status by_http(int status)
{
    switch (status) {
    case 400: return Status::Internal;
    case 401: return Status::Unauthenticated;
    case 403: return Status::PermissionDenied;
    case 404: return Status::Unimplemented;
    case 429:
    case 502:
    case 503:
    case 504: return Status::Unavailable;
    default: return Status::Unknown;
    }
}

Failure from_object(const json::Reader& reader, Status otherwise)
{
    Failure out{.status = otherwise, .message = {}};
    if (const auto code = reader.find("code"); code && *code)
        if (const auto word = (*code)->string())
            if (const auto known = by_word(*word)) out.status = *known;
    if (const auto message = reader.find("message"); message && *message)
        if (auto text = (*message)->string()) out.message = *std::move(text);
    return out;
}

} // namespace

std::string_view to_string(Status status) noexcept { return row(status).word; }
int http_status(Status status) noexcept { return row(status).http; }

Failure failure_of(const Error& error)
{
    const auto status = [&] {
        switch (error.code) {
        case Code::NotFound: return Status::NotFound;
        case Code::Conflict: return Status::FailedPrecondition;
        case Code::Invalid: return Status::InvalidArgument;
        case Code::Denied: return Status::PermissionDenied;
        case Code::Unsupported: return Status::Unimplemented;
        case Code::Exhausted: return Status::ResourceExhausted;
        case Code::Unavailable: return Status::Unavailable;
        case Code::DeadlineExceeded: return Status::DeadlineExceeded;
        case Code::Internal: return Status::Internal;
        }
        return Status::Unknown;
    }();
    return {.status = status, .message = printable_utf8(error.message)};
}

json::Object document(const Failure& failure)
{
    json::Object out;
    out["code"] = to_string(failure.status);
    out["message"] = failure.message;
    return out;
}

std::string end_of_stream() { return "{}"; }

std::string end_of_stream(const Failure& failure)
{
    json::Object out;
    out["error"] = document(failure);
    return json::dump(out);
}

Failure read_failure(int http_status, std::string_view body)
{
    const Status otherwise = by_http(http_status);
    const auto parsed = json::parse(body);
    if (parsed && parsed->is_object()) {
        auto out = from_object(json::Reader(*parsed), otherwise);
        if (!out.message.empty()) return out;
    }
    return {.status = otherwise, .message = fmt::format("HTTP {}", http_status)};
}

Result<std::optional<Failure>> read_end(std::string_view payload)
{
    BERTH_TRY(const auto parsed, json::parse(payload));
    const json::Reader reader(parsed);
    BERTH_TRY(const auto error, reader.find("error"));
    if (!error) return std::optional<Failure>{};
    return from_object(*error, Status::Unknown);
}

Error error_of(const Failure& failure)
{
    return {.code = row(failure.status).code,
            .message = failure.message.empty() ? std::string(to_string(failure.status)) : failure.message};
}

} // namespace berth::connect
