#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// Whose a closed part of the way to `path` is, as "1000:1000": the deepest owner whom nobody in `asked` is.
Task<std::optional<std::string>> next_owner(const EnvdCall& call, std::string path,
                                            std::vector<std::string> asked);

/// As the caller's user, and where that is denied as root. Root of a file call has no capabilities (see
/// sys::SandboxFiles), while root inside may become whomever he likes: where he is denied, too, the owners of
/// what is on the way are asked. An owner the sandbox does not know is none of them; what needs two of them
/// at once stays denied.
template <class F>
auto as_user(const EnvdCall& call, const User& user, std::string path, F work)
    -> decltype(work(std::string{}))
{
    constexpr std::size_t most = 8;
    auto done = co_await work(user.name);
    if (done || done.error().code != Code::Denied) co_return done;
    if (user.name != "root") {
        auto again = co_await work("root");
        // Where there is no root, the first word counts.
        if (!again && again.error().code == Code::Unsupported) co_return done;
        if (again || again.error().code != Code::Denied) co_return again;
    }
    std::vector<std::string> asked{user.name, "root"};
    while (asked.size() < most) {
        const auto owner = co_await next_owner(call, path, asked);
        if (!owner) break;
        asked.push_back(*owner);
        auto again = co_await work(*owner);
        if (again || again.error().code != Code::Denied) co_return again;
    }
    co_return done;
}

} // namespace berth::e2b
