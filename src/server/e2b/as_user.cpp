#include "server/e2b/as_user.hpp"

#include <algorithm>
#include <ranges>

#include <boost/asio/this_coro.hpp>

#include "base/strings.hpp"

namespace berth::e2b {

namespace {

constexpr std::uint32_t kNobody = 65534; // also whoever the sandbox does not know

bool is_of(const std::string& account, std::uint32_t uid)
{
    if (uid == 0) return account == "root" || account.starts_with("0:");
    return account.starts_with(fmt::format("{}:", uid));
}

} // namespace

Task<std::optional<std::string>> next_owner(const EnvdCall& call, std::string path,
                                            std::vector<std::string> asked)
{
    // Whoever was asked last sees farthest.
    for (const auto& who : asked | std::views::reverse) {
        std::vector<FileEntry> seen;
        std::string at;
        for (const auto& part : split(path, '/')) {
            if (part.empty()) continue;
            at += "/" + part;
            auto entry = co_await call.backend.stat_file(call.handle, {.path = at, .user = who});
            if (!entry) break;
            seen.push_back(*std::move(entry));
        }
        for (const auto& entry : seen | std::views::reverse)
            if (entry.uid != kNobody &&
                std::ranges::none_of(asked, [&](const auto& one) { return is_of(one, entry.uid); }))
                co_return fmt::format("{}:{}", entry.uid, entry.gid);
    }
    co_return std::nullopt;
}

} // namespace berth::e2b
