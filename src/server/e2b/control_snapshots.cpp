// Snapshots of the control plane.

#include <boost/asio/this_coro.hpp>

#include "base/brief.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"
#include "server/e2b/control.hpp"
#include "server/e2b/template_name.hpp"

namespace berth::e2b {

Result<std::int64_t> Control::number_of(const http::RequestHead& head, std::string_view name,
                                        std::int64_t low, std::int64_t high, std::int64_t otherwise)
{
    const auto* const text = head.parameter(name);
    if (text == nullptr || text->empty()) return otherwise;
    return parse_int(*text, low, high, name);
}

Task<Control::Answer> Control::take_snapshot(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto document, json::parse(body));
    BERTH_CO_TRY(const auto name, fields::text(json::Reader(document), "name"));
    BERTH_CO_TRY(const auto entry, entry_of(call));
    BERTH_CO_TRY(const auto taken, co_await sandboxes_.snapshot(entry, name));
    json::Object out;
    out["snapshotID"] = taken.id;
    json::Array names;
    for (const auto& one : taken.names) names.emplace_back(one);
    out["names"] = std::move(names);
    co_return http::json_response(201, out);
}

Task<Control::Answer> Control::list_snapshots(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(auto all, co_await sandboxes_.snapshots(call.tenant));
    if (const auto* const id = head.parameter("sandboxID"); id != nullptr && !id->empty())
        std::erase_if(all, [&](const auto& one) { return one.sandbox != *id; });
    if (const auto* const name = head.parameter("name"); name != nullptr && !name->empty()) {
        const std::string wanted = lower_case(*name);
        std::erase_if(all, [&](const auto& one) {
            const std::string& id = one.snapshot.id;
            const std::string short_id = id.substr(id.find('/') + 1);
            return id != wanted && short_id != wanted && id.substr(0, id.find(':')) != wanted &&
                   short_id.substr(0, short_id.find(':')) != wanted;
        });
    }
    BERTH_CO_TRY(const auto limit, number_of(head, "limit", 1, 100, 100));
    BERTH_CO_TRY(const auto skip, number_of(head, "nextToken", 0, INT32_MAX, 0));
    json::Array out;
    const auto first = std::min(all.size(), static_cast<std::size_t>(skip));
    const auto last = std::min(all.size(), first + static_cast<std::size_t>(limit));
    for (std::size_t i = first; i < last; ++i) {
        json::Object one;
        one["snapshotID"] = all[i].snapshot.id;
        json::Array names;
        for (const auto& name : all[i].snapshot.names) names.emplace_back(name);
        one["names"] = std::move(names);
        one["createdAt"] = rfc3339(all[i].created);
        out.emplace_back(std::move(one));
    }
    auto response = http::json_response(200, json::dump(json::Value(std::move(out))));
    if (last < all.size()) response.with("X-Next-Token", std::to_string(last));
    co_return response;
}

} // namespace berth::e2b
