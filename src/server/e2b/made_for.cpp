#include "server/e2b/made_for.hpp"

#include <ranges>

#include <boost/asio/this_coro.hpp>

#include "core/makes_for.hpp"
#include "server/e2b/as_user.hpp"

namespace berth::e2b {

namespace {

/// The directories on the way to `path` that are not there, the outermost first.
Task<std::vector<std::string>> missing_parents(const EnvdCall& call, const User& user, std::string path)
{
    std::vector<std::string> out;
    for (auto end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
        std::string at = path.substr(0, end);
        if (out.empty()) {
            const auto there = co_await as_user(call, user, at, [&](std::string who) {
                return call.backend.stat_file(call.handle, {.path = at, .user = std::move(who)});
            });
            if (there || there.error().code != Code::NotFound) continue;
        }
        out.push_back(std::move(at));
    }
    co_return out;
}

} // namespace

Task<Status> make_dir_for(const EnvdCall& call, const User& user, std::string who, std::string path)
{
    auto* const able = who == user.name ? nullptr : dynamic_cast<MakesFor*>(&call.backend);
    FilePath place{.path = std::move(path), .user = std::move(who)};
    if (able == nullptr)
        co_return co_await call.backend.make_dir(call.handle, std::move(place), MakeParents::Yes);
    co_return co_await able->make_dir_for(call.handle, std::move(place), user.name);
}

Task<Status> fill_file_for(const EnvdCall& call, const User& user, std::string who, std::string path,
                           FileContents contents)
{
    auto* const able = who == user.name ? nullptr : dynamic_cast<MakesFor*>(&call.backend);
    FilePath place{.path = std::move(path), .user = std::move(who)};
    if (able == nullptr)
        co_return co_await call.backend.fill_file(call.handle, std::move(place), std::move(contents));
    co_return co_await able->fill_file_for(call.handle, std::move(place), std::move(contents), user.name);
}

Task<Result<std::vector<std::string>>> make_parents_for(const EnvdCall& call, const User& user,
                                                        std::string path)
{
    auto missing = co_await missing_parents(call, user, path);
    if (missing.empty()) co_return missing;
    const std::string parent = missing.back();
    auto made = co_await as_user(call, user, parent, [&](std::string who) {
        return make_dir_for(call, user, std::move(who), parent);
    });
    if (made) co_return missing;
    co_await unmake_parents(call, user, std::move(missing));
    co_return std::unexpected(std::move(made).error());
}

Task<void> unmake_parents(const EnvdCall& call, const User& user, std::vector<std::string> made)
{
    for (const auto& path : made | std::views::reverse)
        (void)co_await as_user(call, user, path, [&](std::string who) {
            return call.backend.remove_file(call.handle, {.path = path, .user = std::move(who)},
                                            RemoveTree::No);
        });
}

} // namespace berth::e2b
