#include "server/e2b/account.hpp"

#include <boost/asio/this_coro.hpp>

#include "base/strings.hpp"
#include "server/e2b/envd.hpp"

namespace berth::e2b {

std::optional<InsideAccount> find_account(std::string_view passwd, std::string_view name)
{
    constexpr long long kMost = 65534;
    for (const auto& line : split(passwd, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 6 || fields[0] != name) continue;
        const auto uid = parse_int(fields[2], 0, kMost, "user id");
        const auto gid = parse_int(fields[3], 0, kMost, "group id");
        if (!uid || !gid) continue;
        return InsideAccount{.numbers = fmt::format("{}:{}", *uid, *gid),
                             .home = fields[5].starts_with('/') ? fields[5] : "/"};
    }
    return std::nullopt;
}

void name_user(ExecSpec& spec, const std::string& name, const std::string& home)
{
    spec.env.try_emplace("HOME", home);
    spec.env.try_emplace("USER", name);
    spec.env.try_emplace("LOGNAME", name);
}

Task<Status> run_as(gate::Ground& ground, SandboxRecord sandbox, std::string user, ExecSpec& spec)
{
    spec.user = user;
    if (user == "root") co_return Status{};
    BERTH_CO_TRY(auto* const where, co_await ground.berth.lifecycle().backend(sandbox.backend));
    const auto passwd = co_await where->read_file(Lifecycle::handle(sandbox),
                                                  {.path = "/etc/passwd", .user = {}}, kAccountsLimit);
    const auto found = passwd ? find_account(*passwd, user) : std::nullopt;
    // Numbers, and a user with a group, are the backend's to understand; `user` runs wherever it is not
    // listed.
    const bool name = user != "user" && user.find_first_not_of("0123456789") != std::string::npos &&
                      user.find(':') == std::string::npos;
    if (passwd && !found && name)
        co_return fail(Code::NotFound, "invalid username: '{}'", printable(user, 60));
    if (!found) co_return Status{};
    spec.user = found->numbers;
    name_user(spec, user, found->home);
    co_return Status{};
}

} // namespace berth::e2b
