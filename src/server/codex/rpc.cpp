#include "server/codex/rpc.hpp"

#include "base/strings.hpp"
#include "protocol/jsonrpc/message.hpp"

namespace berth::codex {

namespace {

/// "No such file or directory (os error 2)": what the client shows to the model, and what its own
/// judgement of a denial looks for.
std::string os_text(int number)
{
    return fmt::format("{} (os error {})", std::error_code(number, std::generic_category()).message(),
                       number);
}

} // namespace

std::unexpected<RpcError> refuse(int code, std::string message)
{
    return std::unexpected(RpcError{.code = code, .message = std::move(message)});
}

std::unexpected<RpcError> bad_params(const Error& error)
{
    return refuse(jsonrpc::kInvalidParams, error.message);
}

std::unexpected<RpcError> bad_file_params(const Error& error)
{
    const bool own = error.code == Code::Conflict || error.code == Code::Unsupported;
    return refuse(own ? jsonrpc::kInvalidRequest : jsonrpc::kInvalidParams, error.message);
}

std::unexpected<RpcError> file_failed(const Error& error)
{
    const int number = error.sys.value();
    if (number == ENOENT) return refuse(kNotFound, os_text(number));
    if (number == EACCES || number == EPERM || number == EINVAL)
        return refuse(jsonrpc::kInvalidRequest, os_text(number));
    if (number != 0) return refuse(jsonrpc::kInternalError, os_text(number));
    switch (error.code) {
    case Code::NotFound: return refuse(kNotFound, error.message);
    case Code::Invalid:
    case Code::Denied:
    case Code::Conflict: return refuse(jsonrpc::kInvalidRequest, error.message);
    case Code::Unsupported: return refuse(jsonrpc::kInvalidParams, error.message);
    default: return refuse(jsonrpc::kInternalError, error.message);
    }
}

std::unexpected<RpcError> start_failed(const Error& error)
{
    const bool policy =
        error.code == Code::Invalid || error.code == Code::Unsupported || error.code == Code::Denied;
    if (!policy) return refuse(jsonrpc::kInternalError, error.line());
    return refuse(jsonrpc::kInvalidParams,
                  fmt::format("sandbox intent cannot be enforced on this executor: {}", error.line()));
}

} // namespace berth::codex
