#include <algorithm>

#include <boost/asio/this_coro.hpp>

#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "core/spec_json.hpp"
#include "lifecycle/documents.hpp"
#include "lifecycle/template_note.hpp"
#include "policy/document.hpp"
#include "server/gate/tenant.hpp"
#include "server/own/api.hpp"
#include "server/own/shapes.hpp"

namespace berth::own {

namespace {

Result<std::optional<std::chrono::seconds>> seconds_at(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(const auto there, reader.find(name));
    if (!there) return std::optional<std::chrono::seconds>{};
    BERTH_TRY(const auto count, there->integer(1, std::int64_t{10} * 365 * 24 * 3600));
    return std::chrono::seconds(count);
}

Result<std::string> text_at(const json::Reader& reader, std::string_view name, std::string otherwise = {})
{
    BERTH_TRY(const auto there, reader.find(name));
    if (!there) return otherwise;
    return there->string();
}

Result<std::map<std::string, std::string>> texts_at(const json::Reader& reader, std::string_view name)
{
    std::map<std::string, std::string> out;
    BERTH_TRY(const auto there, reader.find(name));
    if (!there) return out;
    BERTH_TRY(const auto members, there->members());
    for (const auto& [key, value] : members) {
        BERTH_TRY(out[key], value.string());
    }
    return out;
}

/// A client may ask for less than everybody has, not for more.
Status within_ceiling(const policy::Policy& asked)
{
    const auto most = policy::preset("sandbox");
    if (!most) return std::unexpected(most.error());
    if (asked.nested_namespaces)
        return fail(Code::Denied, "nested namespaces cannot be had through the server");
    // None at all is more than any: "unlimited" lifts the usual one.
    const auto more = [](const auto& wanted, const auto& usual) {
        return usual && (!wanted || *wanted > *usual);
    };
    if (more(asked.limits.pids, most->limits.pids) || more(asked.limits.open_files, most->limits.open_files))
        return fail(Code::Denied,
                    "more processes or open files than the usual cannot be had through the server");
    return {};
}

Result<AcquireRequest> read_request(const json::Reader& reader, const std::string& tenant)
{
    BERTH_TRY(const auto only, reader.find("template"));
    if (only) {
        BERTH_TRY(const auto name, only->string());
        if (name != "host") return only->refuse("only 'host' can be had through the server");
    }
    BERTH_CHECK(reader.only(members_of("NewSandbox")));
    AcquireRequest out;
    BERTH_TRY(const auto key, text_at(reader, "key"));
    // Tenants do not meet in their keys.
    if (!key.empty()) out.key = fmt::format("v1:{}:{}", tenant, key);
    BERTH_TRY(out.spec.env, texts_at(reader, "env"));
    BERTH_TRY(out.spec.user, text_at(reader, "user", out.spec.user));
    BERTH_TRY(out.spec.workdir, text_at(reader, "workdir"));
    BERTH_TRY(out.spec.labels, texts_at(reader, "labels"));
    for (const auto& [name, value] : out.spec.labels)
        if (name.starts_with("berth.")) return reader.refuse("labels that begin with 'berth.' are ours");
    out.spec.labels[std::string(gate::kTenantLabel)] = tenant;
    BERTH_TRY(out.spec.policy, read_policy(reader));
    if (out.spec.policy.network == policy::Network::Host)
        return fail(Code::Denied, "network 'host' cannot be had through the server");
    if (!out.spec.policy.devices.empty())
        return fail(Code::Denied, "devices cannot be had through the server");
    BERTH_CHECK(within_ceiling(out.spec.policy));
    BERTH_TRY(out.retention.idle, seconds_at(reader, "idle_seconds"));
    BERTH_TRY(out.retention.lifetime, seconds_at(reader, "lifetime_seconds"));
    BERTH_TRY(const auto on_idle, text_at(reader, "on_idle"));
    if (!on_idle.empty()) {
        BERTH_TRY(out.retention.on_idle, parse_on_idle(on_idle));
    }
    return out;
}

Result<bool> proof_wished(const json::Reader& reader)
{
    BERTH_TRY(const auto there, reader.find("prove"));
    return there ? there->boolean() : false;
}

http::Response shown(int status, json::Object document) { return http::json_response(status, document); }

} // namespace

Task<Answer> Api::create(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    BERTH_CO_TRY(auto request, read_request(json::Reader(body), call.tenant));
    request.backend = ground_.backend;
    BERTH_CO_TRY(const bool proven, proof_wished(json::Reader(body)));
    // What its key finds is there already.
    BERTH_CO_TRY(const auto known, co_await ground_.pool.call([&]() -> Result<bool> {
        if (request.key.empty()) return false;
        BERTH_TRY(const auto found, ground_.berth.store().find_key(request.key));
        return found.has_value();
    }));
    BERTH_CO_TRY(const auto room, co_await gate::room_for(ground_, call.tenant, known ? 0 : 1));
    BERTH_CO_TRY(const auto made, co_await (proven ? proving().acquire(std::move(request))
                                                   : lifecycle().acquire(std::move(request))));
    co_return shown(made.tier == Tier::Fresh ? 201 : 200, documents::acquired(made));
}

Task<Answer> Api::list(Call& call)
{
    json::Array out;
    RecordQuery query;
    for (;;) {
        BERTH_CO_TRY(const auto page,
                     co_await ground_.pool.call([&] { return ground_.berth.store().list(query); }));
        for (const auto& record : page)
            if (gate::owned(record.spec, call.tenant)) out.emplace_back(documents::record(record));
        if (page.size() < query.limit) break;
        query.after = page.back().id();
    }
    json::Object document;
    document["sandboxes"] = std::move(out);
    co_return shown(200, std::move(document));
}

Task<Answer> Api::get(Call& call)
{
    BERTH_CO_TRY(auto record, co_await record_of(call));
    BERTH_CO_TRY(record, co_await lifecycle().refresh(record.id()));
    auto document = documents::record(record);
    document["spec"] = to_json(record.spec);
    co_return shown(200, std::move(document));
}

Task<Answer> Api::destroy(Call& call)
{
    BERTH_CO_TRY(auto record, co_await record_of(call));
    BERTH_CO_TRY(record, co_await lifecycle().destroy(record.id()));
    co_return shown(200, documents::record(record));
}

Task<Answer> Api::start(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto used, co_await lifecycle().use(record.id()));
    co_return shown(200, documents::acquired(used));
}

Task<Answer> Api::stop(Call& call)
{
    BERTH_CO_TRY(auto record, co_await record_of(call));
    BERTH_CO_TRY(record, co_await lifecycle().stop(record.id(), std::chrono::seconds(5)));
    co_return shown(200, documents::record(record));
}

Task<Answer> Api::pause(Call& call)
{
    BERTH_CO_TRY(auto record, co_await record_of(call));
    BERTH_CO_TRY(record, co_await lifecycle().pause(record.id()));
    co_return shown(200, documents::record(record));
}

Task<Answer> Api::resume(Call& call)
{
    BERTH_CO_TRY(auto record, co_await record_of(call));
    BERTH_CO_TRY(record, co_await lifecycle().resume(record.id()));
    co_return shown(200, documents::record(record));
}

Task<Answer> Api::fork(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    const json::Reader reader(body);
    BERTH_CO_CHECK(reader.only(members_of("ForkWish")));
    ForkWish wish;
    BERTH_CO_TRY(const auto count, reader.find("count"));
    if (count) {
        BERTH_CO_TRY(const auto number, count->integer(1, 100));
        wish.count = static_cast<std::size_t>(number);
    }
    BERTH_CO_TRY(const auto room, co_await gate::room_for(ground_, call.tenant, wish.count));
    BERTH_CO_TRY(const auto made, co_await lifecycle().fork(record.id(), wish));
    json::Array forks;
    for (const auto& one : made.forks) forks.emplace_back(documents::record(one));
    json::Object document;
    document["sandboxes"] = std::move(forks);
    document["live_copy"] = made.live_copy;
    document["notes"] = documents::text_array(made.notes);
    co_return shown(201, std::move(document));
}

Task<Answer> Api::take_snapshot(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    const json::Reader reader(body);
    BERTH_CO_CHECK(reader.only(members_of("SnapshotWish")));
    SnapshotWish wish;
    BERTH_CO_TRY(wish.note, text_at(reader, "note"));
    BERTH_CO_CHECK(check_note(wish.note));
    BERTH_CO_TRY(const auto taken, co_await lifecycle().snapshot(record.id(), std::move(wish)));
    auto document = documents::snapshot(taken.record);
    document["notes"] = documents::text_array(taken.notes);
    co_return shown(201, std::move(document));
}

Task<Answer> Api::prove(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    BERTH_CO_CHECK(json::Reader(body).only(members_of("Nothing")));
    BERTH_CO_TRY(const auto receipt, co_await proving().prove(record.id()));
    co_return shown(201, prove::to_json(receipt));
}

Task<Answer> Api::receipts(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(auto all, co_await proving().receipts(record.id()));
    json::Array out;
    for (auto& one : all) out.emplace_back(std::move(one));
    json::Object document;
    document["receipts"] = std::move(out);
    co_return shown(200, std::move(document));
}

Task<Answer> Api::list_snapshots(Call& call)
{
    BERTH_CO_TRY(const auto all, co_await lifecycle().snapshots({}));
    json::Array out;
    for (const auto& one : all)
        if (!one.internal && gate::owned(one.spec, call.tenant)) out.emplace_back(documents::snapshot(one));
    json::Object document;
    document["snapshots"] = std::move(out);
    co_return shown(200, std::move(document));
}

Task<Answer> Api::get_snapshot(Call& call)
{
    BERTH_CO_TRY(auto snapshot, co_await snapshot_of(call));
    co_return shown(200, documents::snapshot(co_await lifecycle().weighed(std::move(snapshot))));
}

Task<Answer> Api::restore(Call& call)
{
    BERTH_CO_TRY(const auto snapshot, co_await snapshot_of(call));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    const json::Reader reader(body);
    BERTH_CO_CHECK(reader.only(members_of("RestoreWish")));
    RestoreWish wish{.as_new = true};
    BERTH_CO_TRY(wish.backend, text_at(reader, "backend"));
    // As with a new one: which backend costs whom what is the operator's to say.
    if (!wish.backend.empty() && wish.backend != ground_.backend && wish.backend != snapshot.backend)
        co_return fail(Code::Denied, "this server makes sandboxes on {}, not on '{}'", ground_.backend,
                       printable(wish.backend, 60));
    BERTH_CO_TRY(const auto room, co_await gate::room_for(ground_, call.tenant));
    BERTH_CO_TRY(const auto made, co_await lifecycle().restore(snapshot.id, std::move(wish)));
    co_return shown(201, documents::acquired(made));
}

Task<Answer> Api::remove_snapshot(Call& call)
{
    BERTH_CO_TRY(const auto snapshot, co_await snapshot_of(call));
    BERTH_CO_CHECK(co_await lifecycle().remove_snapshot(snapshot.id));
    co_return http::empty_response();
}

} // namespace berth::own
