#include "server/e2b/control.hpp"

#include <algorithm>

#include <boost/asio/this_coro.hpp>

#include "base/brief.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"
#include "protocol/e2b/listing.hpp"

namespace berth::e2b {

namespace {

using namespace std::chrono_literals;
using http::Response;

constexpr std::int64_t kLatestSecond = 100'000'000'000; ///< of year 5138

Response failure(const Error& error)
{
    const int status = http::status_of(error);
    return http::json_response(status, error_body(status, error.message));
}

bool has_metadata(const Entry& entry, const std::map<std::string, std::string>& wanted)
{
    return std::ranges::all_of(wanted, [&](const auto& pair) {
        const auto at = entry.metadata.find(pair.first);
        return at != entry.metadata.end() && at->second == pair.second;
    });
}

/// Newest first, or oldest; those of one moment by id.
bool before(const Entry& one, const Entry& other, bool ascending)
{
    if (one.started != other.started)
        return ascending ? one.started < other.started : one.started > other.started;
    return one.id < other.id;
}

bool after_token(const Entry& entry, const PageToken& token)
{
    if (entry.started != token.started)
        return token.ascending ? entry.started > token.started : entry.started < token.started;
    return entry.id > token.id;
}

} // namespace

Control::Control(Parts parts)
    : sandboxes_(parts.sandboxes), templates_(parts.templates), builder_(parts.builder), files_(parts.files),
      volumes_(parts.volumes), settings_(parts.settings)
{
    const auto add = [&](const char* method, const char* pattern, Handler handler) {
        router_.add(method, pattern, handler);
    };
    add("POST", "/v2/sandboxes", &Control::create<ApiVersion::V2>);
    add("POST", "/sandboxes", &Control::create<ApiVersion::V1>);
    add("GET", "/v2/sandboxes", &Control::list_v2);
    add("GET", "/sandboxes", &Control::list_v1);
    add("GET", "/sandboxes/metrics", &Control::metrics_of_many);
    add("GET", "/sandboxes/{id}", &Control::get);
    add("DELETE", "/sandboxes/{id}", &Control::kill);
    add("POST", "/v2/sandboxes/{id}/connect", &Control::connect<ApiVersion::V2>);
    add("POST", "/sandboxes/{id}/connect", &Control::connect<ApiVersion::V1>);
    add("POST", "/sandboxes/{id}/resume", &Control::resume);
    add("POST", "/sandboxes/{id}/pause", &Control::pause);
    add("POST", "/sandboxes/{id}/timeout", &Control::set_timeout);
    add("POST", "/sandboxes/{id}/refreshes", &Control::refresh);
    add("POST", "/sandboxes/{id}/fork", &Control::fork);
    add("POST", "/sandboxes/{id}/snapshots", &Control::take_snapshot);
    add("PUT", "/sandboxes/{id}/network", &Control::set_network);
    add("GET", "/sandboxes/{id}/metrics", &Control::metrics);
    add("GET", "/sandboxes/{id}/logs", &Control::logs_v1);
    add("GET", "/v2/sandboxes/{id}/logs", &Control::logs_v2);
    add("GET", "/snapshots", &Control::list_snapshots);
    add("GET", "/templates", &Control::list_templates);
    add("GET", "/v2/templates", &Control::page_templates);
    add("GET", "/templates/aliases/{alias}", &Control::get_alias);
    add("POST", "/v3/templates", &Control::new_template);
    add("POST", "/v2/templates", &Control::new_template);
    add("POST", "/templates/tags", &Control::add_tags);
    add("DELETE", "/templates/tags", &Control::remove_tags);
    add("GET", "/templates/{id}/tags", &Control::list_tags);
    add("GET", "/templates/{id}/files/{hash}", &Control::files_link);
    add("POST", "/v2/templates/{id}/builds/{build}", &Control::start_build);
    add("GET", "/templates/{id}/builds/{build}/status", &Control::build_status);
    add("GET", "/templates/{id}/builds/{build}/logs", &Control::build_logs);
    add("GET", "/templates/{id}", &Control::get_template);
    add("PATCH", "/v2/templates/{id}", &Control::change_template);
    add("PATCH", "/templates/{id}", &Control::change_template);
    add("DELETE", "/templates/{id}", &Control::remove_template);
    add("GET", "/teams", &Control::teams);
    add("GET", "/teams/{id}/metrics", &Control::team_metrics);
    add("GET", "/teams/{id}/metrics/max", &Control::team_metrics);
    add("POST", "/volumes", &Control::create_volume);
    add("GET", "/volumes", &Control::list_volumes);
    add("GET", "/volumes/{id}", &Control::get_volume);
    add("DELETE", "/volumes/{id}", &Control::remove_volume);
}

bool Control::takes(const http::RequestHead& head)
{
    if (head.segments.empty()) return false;
    const auto& first = head.segments.front();
    for (const std::string_view known :
         {"sandboxes", "v2", "v3", "snapshots", "templates", "volumes", "volumecontent", "secrets", "teams",
          "api-keys", "access-tokens", "nodes", "admin", "health"})
        if (first == known) return true;
    return false;
}

Task<void> Control::answer(http::Exchange& exchange)
{
    const auto& head = exchange.head();
    if (head.path == "/health") {
        (void)co_await exchange.send(http::empty_response());
        co_return;
    }
    if (head.method == "PUT" && head.segments.size() == 2 && head.segments[0] == "templates" &&
        head.segments[1] == "upload") {
        co_await take_files(exchange);
        co_return;
    }
    const auto refuse = [](int status, std::string_view why) {
        return http::json_response(status, error_body(status, why));
    };
    std::string_view secret = head.value("x-api-key");
    if (const auto bearer = head.value("authorization"); secret.empty() && bearer.starts_with("Bearer "))
        secret = bearer.substr(7);
    const auto tenant = gate::tenant_of(sandboxes_.ground(), secret);
    if (!tenant) {
        (void)co_await exchange.send(
            refuse(401, secret.empty() ? "no API key: send it as X-API-Key" : "this API key is not valid"));
        co_return;
    }
    if (!sandboxes_.ground().rate.take(*tenant, system_clock().steady())) {
        (void)co_await exchange.send(refuse(429, "too many requests"));
        co_return;
    }
    auto match = router_.find(head);
    if (match.route == nullptr) {
        (void)co_await exchange.send(match.path_known
                                         ? refuse(405, "this method is not allowed here")
                                         : refuse(501, "this server does not have this endpoint"));
        co_return;
    }
    const auto type = head.media_type();
    if ((head.chunked || head.length.value_or(0) > 0) && !type.empty() && type != "application/json") {
        (void)co_await exchange.send(
            refuse(400, fmt::format("Content-Type must be application/json, not '{}'", printable(type, 60))));
        co_return;
    }
    Call call{.exchange = exchange, .tenant = *tenant, .parameters = std::move(match.parameters)};
    auto answer = co_await (this->*match.route->handler)(call);
    if (exchange.begun()) co_return;
    if (exchange.too_large()) answer = refuse(413, answer.error().message);
    (void)co_await exchange.send(answer ? *std::move(answer) : failure(answer.error()));
}

Result<EntryPtr> Control::entry_of(const Call& call) const
{
    return sandboxes_.of_tenant(call.parameters.front(), call.tenant);
}

template <ApiVersion version> Task<Control::Answer> Control::create(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    auto wish = read_new_sandbox(body, version);
    // What we lack is as impossible as what nobody has.
    if (!wish && wish.error().code == Code::Unsupported) wish.error().code = Code::Invalid;
    if (!wish) co_return std::unexpected(std::move(wish).error());
    BERTH_CO_TRY(const auto entry, co_await sandboxes_.create(*std::move(wish), call.tenant));
    co_return http::json_response(201, sandbox_json(sandboxes_.view(*entry)));
}

Task<Control::Answer> Control::list_v1(Call& call)
{
    std::map<std::string, std::string> metadata;
    if (const auto* const filter = call.exchange.head().parameter("metadata")) {
        BERTH_CO_TRY(metadata, read_metadata_filter(*filter));
    }
    auto all = sandboxes_.all();
    std::erase_if(all, [&](const auto& entry) {
        return entry->tenant != call.tenant || entry->paused || !has_metadata(*entry, metadata);
    });
    std::ranges::sort(all, [](const auto& a, const auto& b) { return before(*a, *b, false); });
    json::Array out;
    for (const auto& entry : all) out.emplace_back(listed_json(sandboxes_.view(*entry)));
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

Task<Control::Answer> Control::list_v2(Call& call)
{
    BERTH_CO_TRY(const auto query, read_list_query(call.exchange.head().query));
    auto all = sandboxes_.all();
    std::erase_if(all, [&](const auto& entry) {
        return entry->tenant != call.tenant || (entry->paused ? !query.paused : !query.running) ||
               (query.started_after && entry->started < *query.started_after) ||
               (query.template_id && entry->template_id != *query.template_id &&
                entry->alias != *query.template_id) ||
               !has_metadata(*entry, query.metadata);
    });
    const auto running = std::ranges::count_if(all, [](const auto& entry) { return !entry->paused; });
    std::ranges::sort(all, [&](const auto& a, const auto& b) { return before(*a, *b, query.ascending); });
    if (query.after) std::erase_if(all, [&](const auto& e) { return !after_token(*e, *query.after); });
    const bool more = all.size() > query.limit;
    if (more) all.resize(query.limit);
    json::Array out;
    for (const auto& entry : all) out.emplace_back(listed_json(sandboxes_.view(*entry)));
    auto response = http::json_response(200, json::dump(json::Value(std::move(out))));
    if (more)
        response.with("X-Next-Token", encode(PageToken{.started = all.back()->started,
                                                       .id = all.back()->id,
                                                       .ascending = query.ascending}));
    if (query.running) response.with("X-Total-Running", std::to_string(running));
    co_return response;
}

Task<Control::Answer> Control::get(Call& call)
{
    BERTH_CO_TRY(const auto entry, entry_of(call));
    co_return http::json_response(200, detail_json(sandboxes_.view(*entry)));
}

Task<Control::Answer> Control::kill(Call& call)
{
    BERTH_CO_TRY(const auto entry, entry_of(call));
    BERTH_CO_CHECK(co_await sandboxes_.kill(entry, "asked"));
    co_return http::empty_response();
}

template <ApiVersion version> Task<Control::Answer> Control::connect(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_time(body, "timeout"));
    if (version == ApiVersion::V1 && !wish.time) co_return fail(Code::Invalid, "timeout is missing");
    BERTH_CO_TRY(const auto entry, entry_of(call));
    BERTH_CO_TRY(const bool resumed,
                 co_await sandboxes_.resume(entry, wish.memory.value_or(true), wish.time.value_or(300s)));
    co_return http::json_response(resumed ? 201 : 200, sandbox_json(sandboxes_.view(*entry)));
}

Task<Control::Answer> Control::resume(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_time(body, "timeout"));
    BERTH_CO_TRY(const auto entry, entry_of(call));
    if (!entry->paused) co_return fail(Code::Conflict, "sandbox \"{}\" is already running", entry->id);
    if (wish.auto_pause) entry->auto_pause = *wish.auto_pause;
    BERTH_CO_TRY([[maybe_unused]] const bool resumed,
                 co_await sandboxes_.resume(entry, wish.memory.value_or(true), wish.time.value_or(15s)));
    co_return http::json_response(201, sandbox_json(sandboxes_.view(*entry)));
}

Task<Control::Answer> Control::pause(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_time(body, "timeout"));
    BERTH_CO_TRY(const auto entry, entry_of(call));
    BERTH_CO_CHECK(co_await sandboxes_.pause(entry, wish.memory.value_or(true)));
    co_return http::empty_response();
}

Task<Control::Answer> Control::set_timeout(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_time(body, "timeout"));
    if (!wish.time) co_return fail(Code::Invalid, "timeout is missing");
    BERTH_CO_TRY(const auto entry, entry_of(call));
    if (entry->paused) co_return fail(Code::Conflict, "sandbox \"{}\" is paused", entry->id);
    BERTH_CO_CHECK(co_await sandboxes_.set_end(entry, sandboxes_.now() + *wish.time));
    co_return http::empty_response();
}

Task<Control::Answer> Control::refresh(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_time(body, "duration"));
    const auto time = std::max<std::chrono::seconds>(wish.time.value_or(15s), 15s);
    if (time > 3600s) co_return fail(Code::Invalid, "duration must be 0 to 3600");
    BERTH_CO_TRY(const auto entry, entry_of(call));
    const auto end = sandboxes_.now() + time;
    if (!entry->paused && end > entry->end) BERTH_CO_CHECK(co_await sandboxes_.set_end(entry, end));
    co_return http::empty_response();
}

Task<Control::Answer> Control::fork(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_fork(body));
    BERTH_CO_TRY(const auto entry, entry_of(call));
    BERTH_CO_TRY(const auto made, co_await sandboxes_.fork(entry, wish));
    json::Array out;
    for (const auto& one : made) {
        json::Object item;
        if (one) {
            item["sandbox"] = sandbox_json(sandboxes_.view(**one));
        } else {
            const int status = http::status_of(one.error());
            item["error"] = json::Object{{"code", status}, {"message", one.error().message}};
        }
        out.emplace_back(std::move(item));
    }
    co_return http::json_response(201, json::dump(json::Value(std::move(out))));
}

Task<Control::Answer> Control::set_network(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    // All or nothing can be asked for; nothing is what is held.
    BERTH_CO_TRY([[maybe_unused]] const bool denied, read_network_update(body));
    BERTH_CO_TRY(const auto entry, entry_of(call));
    if (entry->paused) co_return fail(Code::Conflict, "sandbox \"{}\" is paused", entry->id);
    co_return http::empty_response();
}

Task<Control::Answer> Control::metrics(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(const auto entry, entry_of(call));
    BERTH_CO_TRY(auto start, number_of(head, "start", 0, INT64_MAX, 0));
    BERTH_CO_TRY(auto end, number_of(head, "end", 0, INT64_MAX, INT64_MAX));
    // There are clients, of Python above all, that mean milliseconds.
    for (auto* const time : {&start, &end})
        if (*time > kLatestSecond) *time /= 1000;
    json::Array out;
    for (std::size_t i = 0; i < entry->samples.size(); ++i) {
        const auto& one = entry->samples.at(i);
        if (one.seconds >= start && one.seconds <= end)
            out.emplace_back(metric_json(sandboxes_.metric_of(*entry, one)));
    }
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

Task<Control::Answer> Control::metrics_of_many(Call& call)
{
    json::Object found;
    std::vector<std::string> wanted;
    // Said once for each by some clients, with commas by others.
    for (const auto& [name, ids] : call.exchange.head().query)
        if (name == "sandbox_ids") std::ranges::move(split(ids, ','), std::back_inserter(wanted));
    if (wanted.size() > 100) co_return fail(Code::Invalid, "sandbox_ids: at most 100");
    for (const auto& id : wanted) {
        const auto entry = sandboxes_.find(id);
        if (!entry || entry->tenant != call.tenant || entry->samples.empty()) continue;
        found[id] = metric_json(sandboxes_.metric_of(*entry, entry->samples.newest()));
    }
    json::Object out;
    out["sandboxes"] = std::move(found);
    co_return http::json_response(200, out);
}

} // namespace berth::e2b
