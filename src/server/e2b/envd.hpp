#pragma once

#include <map>

#include "protocol/connect/failure.hpp"
#include "server/e2b/sandboxes.hpp"

namespace berth::e2b {

/// An account inside, as far as a caller chooses one.
struct User {
    std::string name = "user"; ///< as the backend takes it: perhaps numbers
    std::string home = "/home/user";
    std::string login{}; ///< of one by numbers: what it is called
};

/// A request to a sandbox's envd, once it is known to be allowed.
struct EnvdCall {
    http::Exchange& exchange;
    EntryPtr entry;
    Backend& backend;
    SandboxHandle handle;
    /// Names by number, of "/etc/passwd" and "/etc/group": read once for a request, however many files it
    /// tells.
    mutable std::map<std::string, std::map<std::uint32_t, std::string>> names{};
};
/// More of "/etc/passwd" or "/etc/group" is not looked at: whoever works inside writes them.
inline constexpr Bytes kAccountsLimit = 64_KiB;

/// What of a request names a sandbox and a port of it.
struct Destination {
    std::string sandbox;
    std::uint16_t port = 0;
};
inline constexpr std::uint16_t kEnvdPort = 49983;

/// A failed call with one answer.
Task<void> send_failure(http::Exchange& exchange, const connect::Failure& failure);
/// {"code":401,"message":"…"}
Task<void> send_error(http::Exchange& exchange, int status, std::string message);

/// The user a request is made as: of its Basic authorization, else of `named`, else the default one.
/// Unauthenticated: the sandbox has no such user.
Task<std::expected<User, connect::Failure>> user_of(const EnvdCall& call, std::string named = {});
/// That one, whatever the request says; empty: the default one.
Task<std::expected<User, connect::Failure>> user_named(const EnvdCall& call, std::string name);

/// A path as a user means it: "~" and relative ones are below the home directory. Always absolute, and
/// without "." and "..".
[[nodiscard]] std::expected<std::string, connect::Failure> resolve_path(const User& user,
                                                                        std::string_view path);
/// The same, where an empty one is the directory that commands of the template begin in.
[[nodiscard]] std::expected<std::string, connect::Failure>
resolve_path(const EnvdCall& call, const User& user, std::string_view path);

} // namespace berth::e2b
