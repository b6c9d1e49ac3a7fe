#include "server/e2b/envd.hpp"

#include <boost/asio/this_coro.hpp>

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "server/e2b/account.hpp"

namespace berth::e2b {

namespace {

connect::Failure unknown_user(std::string_view name)
{
    return {.status = connect::Status::Unauthenticated,
            .message = fmt::format("invalid username: '{}'", printable(name, 60))};
}

/// "user" of "Basic dXNlcjo=". The password is nobody's business.
std::string basic_user(std::string_view authorization)
{
    constexpr std::string_view scheme = "Basic ";
    if (!authorization.starts_with(scheme)) return {};
    const auto decoded = base64_decode(authorization.substr(scheme.size()));
    if (!decoded) return {};
    return decoded->substr(0, decoded->find(':'));
}

} // namespace

Task<void> send_failure(http::Exchange& exchange, const connect::Failure& failure)
{
    auto response = http::json_response(connect::http_status(failure.status), connect::document(failure));
    (void)co_await exchange.send(std::move(response));
}

Task<void> send_error(http::Exchange& exchange, int status, std::string message)
{
    (void)co_await exchange.send(http::json_response(status, error_body(status, message)));
}

Task<std::expected<User, connect::Failure>> user_of(const EnvdCall& call, std::string named)
{
    std::string name = basic_user(call.exchange.head().value("authorization"));
    if (name.empty()) name = std::move(named);
    return user_named(call, std::move(name));
}

Task<std::expected<User, connect::Failure>> user_named(const EnvdCall& call, std::string name)
{
    if (name.empty()) name = call.entry->user;
    if (name == "user" && !call.entry->own_accounts) co_return User{};
    if (name == "root") co_return User{.name = "root", .home = "/root"};
    const auto passwd =
        co_await call.backend.read_file(call.handle, {.path = "/etc/passwd", .user = {}}, kAccountsLimit);
    if (!passwd) co_return std::unexpected(connect::failure_of(passwd.error()));
    // By number: the backend knows the accounts a template began with, and not those that came later.
    if (const auto found = find_account(*passwd, name))
        co_return User{.name = found->numbers, .home = found->home, .login = name};
    if (name == "user") co_return User{.name = {}}; // whom the image has instead
    co_return std::unexpected(unknown_user(name));
}

std::expected<std::string, connect::Failure> resolve_path(const User& user, std::string_view path)
{
    std::string whole;
    if (path.find('\0') != std::string_view::npos)
        return std::unexpected(
            connect::Failure{.status = connect::Status::InvalidArgument, .message = "a path with NUL"});
    if (path.empty() || path == "~") {
        whole = user.home;
    } else if (path.starts_with("~/")) {
        whole = user.home + "/" + std::string(path.substr(2));
    } else if (path.starts_with('~')) {
        return std::unexpected(connect::Failure{.status = connect::Status::InvalidArgument,
                                                .message = "cannot expand the home of another user"});
    } else {
        whole = path.starts_with('/') ? std::string(path) : user.home + "/" + std::string(path);
    }
    std::vector<std::string> parts;
    for (auto& part : split(whole, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            if (!parts.empty()) parts.pop_back();
            continue;
        }
        parts.push_back(std::move(part));
    }
    return fmt::format("/{}", fmt::join(parts, "/"));
}

std::expected<std::string, connect::Failure> resolve_path(const EnvdCall& call, const User& user,
                                                          std::string_view path)
{
    return resolve_path(user, path.empty() ? call.entry->workdir : path);
}

} // namespace berth::e2b
