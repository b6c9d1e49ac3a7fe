#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace berth {

/// What went wrong, in words a caller can branch on. Codes are part of the
/// wire contract: add at the end, never renumber.
enum class Code {
    NotFound,         ///< the named thing does not exist
    Conflict,         ///< it exists, but not in a state that allows this
    Invalid,          ///< the request can never succeed as written
    Denied,           ///< policy or authorisation said no
    Unsupported,      ///< this backend or machine cannot do it; another one might
    Exhausted,        ///< a quota, disk or pid limit was reached
    Unavailable,      ///< try again: the peer is restarting or unreachable
    DeadlineExceeded, ///< the time given for it ran out
    Internal,         ///< a bug, ours or the kernel's
};

/// The stable name of a code, as JSON shows it: "not_found".
[[nodiscard]] std::string_view to_string(Code code) noexcept;

/// The exit code of a command-line verb that failed with this code.
[[nodiscard]] int exit_code(Code code) noexcept;

/// A failure and the trail of what we were doing when it happened, innermost
/// first. Cheap to move; built only on the failure path.
struct Error {
    Code code = Code::Internal;
    std::string message;
    std::error_code sys{};            ///< set when a system call failed
    std::vector<std::string> trail{}; ///< "mounting /proc", "starting sbx_01jd7f3"

    /// Adds one step of context; once per layer crossed, not once per function.
    [[nodiscard]] Error while_doing(std::string what) &&;

    /// One line for a person: the message, then the trail in brackets.
    [[nodiscard]] std::string line() const;
};

template <class T> using Result = std::expected<T, Error>;
using Status = Result<void>;

/// The code that an errno value means when nothing better is known.
[[nodiscard]] Code code_of_errno(int err) noexcept;

[[nodiscard]] std::unexpected<Error> fail_text(Code code, std::string message);
[[nodiscard]] std::unexpected<Error> fail_sys(int err, std::string what);

/// Our own refusal. The message names the object, lower case, no full stop.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args)
{
    return fail_text(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Directly after a system call that failed: reads `errno` before anything else.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_errno(fmt::format_string<Args...> format, Args&&... args)
{
    const int err = errno;
    return fail_sys(err, fmt::format(format, std::forward<Args>(args)...));
}

/// The same for a system call that answered with a negative errno.
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail_with(int err, fmt::format_string<Args...> format, Args&&... args)
{
    return fail_sys(err < 0 ? -err : err, fmt::format(format, std::forward<Args>(args)...));
}

#define BERTH_CONCAT_(a, b) a##b
#define BERTH_CONCAT(a, b) BERTH_CONCAT_(a, b)

/// `BERTH_TRY(auto x, f());` binds the value of a Result or passes its error up.
#define BERTH_TRY(declaration, ...)                                                                          \
    auto BERTH_CONCAT(try_at_, __LINE__) = (__VA_ARGS__);                                                    \
    if (!BERTH_CONCAT(try_at_, __LINE__))                                                                    \
        return std::unexpected<::berth::Error>(std::move(BERTH_CONCAT(try_at_, __LINE__)).error());          \
    declaration = *std::move(BERTH_CONCAT(try_at_, __LINE__))

/// `BERTH_CHECK(f());` passes the error of a Status up.
#define BERTH_CHECK(...)                                                                                     \
    do {                                                                                                     \
        if (auto checked_ = (__VA_ARGS__); !checked_)                                                        \
            return std::unexpected<::berth::Error>(std::move(checked_).error());                             \
    } while (false)

/// BERTH_TRY inside a coroutine.
#define BERTH_CO_TRY(declaration, ...)                                                                       \
    auto BERTH_CONCAT(try_at_, __LINE__) = (__VA_ARGS__);                                                    \
    if (!BERTH_CONCAT(try_at_, __LINE__))                                                                    \
        co_return std::unexpected<::berth::Error>(std::move(BERTH_CONCAT(try_at_, __LINE__)).error());       \
    declaration = *std::move(BERTH_CONCAT(try_at_, __LINE__))

/// BERTH_CHECK inside a coroutine.
#define BERTH_CO_CHECK(...)                                                                                  \
    do {                                                                                                     \
        if (auto checked_ = (__VA_ARGS__); !checked_)                                                        \
            co_return std::unexpected<::berth::Error>(std::move(checked_).error());                          \
    } while (false)

} // namespace berth
