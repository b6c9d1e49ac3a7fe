#include "keeping/account.hpp"

#include "base/strings.hpp"

namespace berth::keeping {

namespace {

constexpr std::uint32_t kMaxInsideId = 65534;

std::optional<Account> parse_line(const std::string& line)
{
    const auto fields = split(line, ':');
    if (fields.size() < 7) return std::nullopt;
    const auto uid = parse_int(fields[2], 0, kMaxInsideId, "user id");
    const auto gid = parse_int(fields[3], 0, kMaxInsideId, "group id");
    if (!uid || !gid) return std::nullopt;
    Account account{.name = fields[0],
                    .uid = static_cast<std::uint32_t>(*uid),
                    .gid = static_cast<std::uint32_t>(*gid),
                    .home = fields[5],
                    .shell = fields[6]};
    if (account.home.empty() || account.home.front() != '/') account.home = "/";
    if (account.shell.empty() || account.shell.front() != '/') account.shell = "/bin/sh";
    return account;
}

/// A number, or a name of etc/group.
Result<std::uint32_t> find_group(std::string_view group, const EtcReader& etc)
{
    if (const auto gid = parse_int(group, 0, kMaxInsideId, "group id"))
        return static_cast<std::uint32_t>(*gid);
    BERTH_TRY(const auto text, etc("etc/group"));
    for (const auto& line : split(text, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 3 || fields[0] != group) continue;
        BERTH_TRY(const auto gid, parse_int(fields[2], 0, kMaxInsideId, "group id"));
        return static_cast<std::uint32_t>(gid);
    }
    return fail(Code::NotFound, "no group '{}' in the template's /etc/group", printable(group, 64));
}

} // namespace

Result<Account> find_account(std::string_view user, const EtcReader& etc)
{
    BERTH_TRY(auto listed, find_listed(user, etc));
    if (listed) return *std::move(listed);
    // A template without these two accounts still runs the default user, by number.
    if (user == "user") return Account{.name = "user"};
    if (user == "root") return Account{.name = "root", .uid = 0, .gid = 0, .home = "/root"};
    return fail(Code::NotFound, "no user '{}' in the template's /etc/passwd", printable(user, 64));
}

Result<std::optional<Account>> find_listed(std::string_view user, const EtcReader& etc)
{
    if (user.empty() || user.size() > 64 ||
        user.find_first_of(std::string_view("\n\0/", 3)) != std::string_view::npos)
        return fail(Code::Invalid, "bad user '{}'", printable(user, 64));
    const auto colon = user.find(':');
    const std::string_view name = user.substr(0, colon);
    const auto uid = parse_int(name, 0, kMaxInsideId, "user id");
    BERTH_TRY(const auto passwd, etc("etc/passwd"));
    std::optional<Account> found;
    for (const auto& line : split(passwd, '\n')) {
        auto account = parse_line(line);
        if (!account) continue;
        if (uid ? account->uid != static_cast<std::uint32_t>(*uid) : account->name != name) continue;
        found = std::move(account);
        break;
    }
    if (!found && uid) {
        found = Account{.name = std::string(name), .home = "/"};
        found->uid = found->gid = static_cast<std::uint32_t>(*uid);
    }
    if (found && colon != std::string_view::npos) {
        BERTH_TRY(found->gid, find_group(user.substr(colon + 1), etc));
    }
    return found;
}

Result<Account> image_account(const std::string& user, const EtcReader& etc)
{
    BERTH_TRY(auto ours, find_listed("user", etc));
    if (ours) return *std::move(ours);
    return find_account(user.empty() ? "root" : user, etc);
}

} // namespace berth::keeping
