// Volumes of the control plane.

#include <boost/asio/this_coro.hpp>

#include "base/json_reader.hpp"
#include "protocol/e2b/fields.hpp"
#include "server/e2b/control.hpp"

namespace berth::e2b {

namespace {

json::Object volume_json(const KeptVolume& volume)
{
    json::Object out;
    out["volumeID"] = volume.id;
    out["name"] = volume.name;
    return out;
}

/// With the token, for whose it is.
json::Object whole_json(const KeptVolume& volume, const std::string& domain)
{
    auto out = volume_json(volume);
    out["token"] = volume.token;
    if (!domain.empty()) out["domain"] = domain;
    return out;
}

} // namespace

Task<Control::Answer> Control::create_volume(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto document, json::parse(body));
    BERTH_CO_TRY(auto name, fields::text(json::Reader(document), "name"));
    BERTH_CO_TRY(const auto volume, co_await volumes_.create(std::move(name), call.tenant));
    co_return http::json_response(201, whole_json(*volume, sandboxes_.ground().domain));
}

Task<Control::Answer> Control::list_volumes(Call& call)
{
    json::Array out;
    for (const auto& volume : volumes_.all(call.tenant)) out.emplace_back(volume_json(*volume));
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

Task<Control::Answer> Control::get_volume(Call& call)
{
    BERTH_CO_TRY(const auto volume, volumes_.of_tenant(call.parameters.front(), call.tenant));
    co_return http::json_response(200, whole_json(*volume, sandboxes_.ground().domain));
}

Task<Control::Answer> Control::remove_volume(Call& call)
{
    BERTH_CO_TRY(const auto volume, volumes_.of_tenant(call.parameters.front(), call.tenant));
    BERTH_CO_CHECK(co_await volumes_.remove(volume));
    co_return http::empty_response();
}

} // namespace berth::e2b
