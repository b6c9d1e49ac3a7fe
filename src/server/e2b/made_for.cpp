#include "server/e2b/made_for.hpp"

#include <boost/asio/this_coro.hpp>

#include "core/makes_for.hpp"

namespace berth::e2b {

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

} // namespace berth::e2b
