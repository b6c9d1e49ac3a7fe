// Snapshots and templates of the control plane.

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

Task<Control::Answer> Control::remove_template(Call& call)
{
    const std::string& id = call.parameters.front();
    if (lower_case(id) == kBaseTemplate) co_return fail(Code::Denied, "template 'base' cannot be removed");
    BERTH_CO_TRY(const bool removed, co_await sandboxes_.remove_snapshot(id, call.tenant));
    if (!removed) co_return fail(Code::NotFound, "template '{}' not found", printable(id, 100));
    co_return http::empty_response();
}

Task<Control::Answer> Control::list_templates(Call&)
{
    const auto machine = machine_size();
    json::Object base;
    base["templateID"] = kBaseTemplate;
    base["buildID"] = "00000000-0000-0000-0000-000000000000";
    base["cpuCount"] = machine.cpus;
    base["memoryMB"] = machine.memory_mb;
    base["diskSizeMB"] = machine.disk_mb;
    base["public"] = true;
    base["aliases"] = json::Array{kBaseTemplate};
    base["names"] = json::Array{kBaseTemplate};
    base["createdAt"] = base["updatedAt"] = rfc3339(WallTime{});
    base["createdBy"] = nullptr;
    base["lastSpawnedAt"] = nullptr;
    base["spawnCount"] = 0;
    base["buildCount"] = 1;
    base["envdVersion"] = kEnvdVersion;
    base["buildStatus"] = "ready";
    json::Array out;
    out.emplace_back(std::move(base));
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

Task<Control::Answer> Control::get_alias(Call& call)
{
    if (lower_case(call.parameters.front()) != kBaseTemplate)
        co_return fail(Code::NotFound, "template '{}' not found", printable(call.parameters.front(), 100));
    json::Object out;
    out["templateID"] = kBaseTemplate;
    out["public"] = true;
    co_return http::json_response(200, out);
}

} // namespace berth::e2b
