#include "base/result.hpp"

namespace berth {

std::string_view to_string(Code code) noexcept
{
    switch (code) {
    case Code::NotFound: return "not_found";
    case Code::Conflict: return "conflict";
    case Code::Invalid: return "invalid";
    case Code::Denied: return "denied";
    case Code::Unsupported: return "unsupported";
    case Code::Exhausted: return "exhausted";
    case Code::Unavailable: return "unavailable";
    case Code::DeadlineExceeded: return "deadline_exceeded";
    case Code::Internal: return "internal";
    }
    return "internal";
}

int exit_code(Code code) noexcept
{
    switch (code) {
    case Code::Invalid: return 2;
    case Code::NotFound: return 3;
    case Code::Conflict: return 4;
    case Code::Denied: return 5;
    case Code::Unsupported: return 6;
    case Code::Unavailable:
    case Code::DeadlineExceeded: return 7;
    case Code::Exhausted:
    case Code::Internal: return 1;
    }
    return 1;
}

Error Error::while_doing(std::string what) &&
{
    trail.push_back(std::move(what));
    return std::move(*this);
}

std::string Error::line() const
{
    std::string text = message;
    for (const auto& step : trail) text += fmt::format(" (while {})", step);
    return text;
}

Code code_of_errno(int err) noexcept
{
    switch (err) {
    case ENOENT:
    case ESRCH: return Code::NotFound;
    case EEXIST:
    case EBUSY:
    case ENOTEMPTY: return Code::Conflict;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case E2BIG: return Code::Invalid;
    case EACCES:
    case EPERM:
    case EROFS: return Code::Denied;
    case ENOSYS:
    case EOPNOTSUPP: return Code::Unsupported;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN: return Code::Exhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE: return Code::Unavailable;
    case ETIMEDOUT: return Code::DeadlineExceeded;
    default: return Code::Internal;
    }
}

std::unexpected<Error> fail_text(Code code, std::string message)
{
    return std::unexpected<Error>(Error{.code = code, .message = std::move(message)});
}

std::unexpected<Error> fail_sys(int err, std::string what)
{
    const std::error_code sys(err, std::generic_category());
    return std::unexpected<Error>(
        Error{.code = code_of_errno(err), .message = fmt::format("{}: {}", what, sys.message()), .sys = sys});
}

} // namespace berth
