// Templates of the control plane: listed, removed, built.

#include <algorithm>

#include <boost/asio/this_coro.hpp>

#include "base/brief.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"
#include "server/e2b/control.hpp"
#include "server/e2b/template_name.hpp"

namespace berth::e2b {

namespace {

constexpr std::int64_t kMostLines = 100; // in one answer

json::Array texts(const std::vector<std::string>& from)
{
    json::Array out;
    for (const auto& one : from) out.emplace_back(one);
    return out;
}

std::string full_name(const Built& built)
{
    return fmt::format("{}/{}", lower_case(built.tenant), built.alias);
}

/// How large its sandboxes are: as what is held of the wish, else as the machine.
void add_size(json::Object& out, const policy::Limits& held)
{
    const auto machine = machine_size();
    out["cpuCount"] = held.cpus ? static_cast<unsigned>(*held.cpus) : machine.cpus;
    out["memoryMB"] = held.memory ? held.memory->count >> 20 : machine.memory_mb;
    out["diskSizeMB"] = machine.disk_mb;
}

/// What every template is shown with.
json::Object common_json(std::string_view id, std::string_view build, const policy::Limits& held = {})
{
    json::Object out;
    out["templateID"] = id;
    out["buildID"] = build;
    add_size(out, held);
    out["createdBy"] = nullptr;
    out["envdVersion"] = kEnvdVersion;
    return out;
}

/// Of one that nobody has built.
json::Object given_json(std::string_view name)
{
    auto base = common_json(name, "00000000-0000-0000-0000-000000000000");
    base["public"] = true;
    base["aliases"] = json::Array{name};
    base["names"] = json::Array{name};
    base["createdAt"] = base["updatedAt"] = rfc3339(WallTime{});
    base["lastSpawnedAt"] = nullptr;
    base["spawnCount"] = 0;
    base["buildCount"] = 1;
    base["buildStatus"] = "ready";
    return base;
}

/// As a client wrote it: empty also for what is no name.
std::string_view given_template(std::string_view text)
{
    const auto name = parse_template_name(text);
    return name ? e2b::given_template(*name) : std::string_view{};
}

/// The build people mean by the template: that of its tag "default", else the newest.
BuildPtr shown_build(const Built& built)
{
    if (const auto at = built.tags.find("default"); at != built.tags.end())
        if (auto build = built.build(at->second)) return build;
    return built.builds.empty() ? nullptr : built.builds.back();
}

json::Object template_json(const Built& built, const policy::Limits& held)
{
    const auto build = shown_build(built);
    auto out = common_json(built.id, build ? build->id : "", held);
    out["public"] = false;
    out["aliases"] = json::Array{built.alias};
    out["names"] = json::Array{full_name(built)};
    out["createdAt"] = rfc3339(built.created);
    out["updatedAt"] = rfc3339(built.updated);
    out["lastSpawnedAt"] = nullptr;
    if (built.spawned != 0) out["lastSpawnedAt"] = rfc3339(built.last_spawned);
    out["spawnCount"] = built.spawned;
    out["buildCount"] = built.builds.size();
    out["buildStatus"] = to_string(build ? build->state : BuildState::Waiting);
    return out;
}

json::Object build_json(const Build& build, const policy::Limits& held)
{
    json::Object out;
    out["buildID"] = build.id;
    out["status"] = to_string(build.state);
    out["createdAt"] = rfc3339(build.created);
    out["updatedAt"] = rfc3339(std::max(build.created, build.finished));
    if (build.finished != WallTime{}) out["finishedAt"] = rfc3339(build.finished);
    add_size(out, held);
    out["envdVersion"] = kEnvdVersion;
    return out;
}

/// Lines of at least this weight; every line where none is asked for.
void keep_level(std::vector<BuildLine>& lines, const std::string* level)
{
    constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error"};
    const auto weight = [&](std::string_view name) {
        return std::ranges::find(kLevels, name) - std::begin(kLevels);
    };
    if (level == nullptr || level->empty()) return;
    std::erase_if(lines, [&](const auto& line) { return weight(line.level) < weight(*level); });
}

} // namespace

Task<Control::Answer> Control::list_templates(Call& call)
{
    json::Array out;
    for (const auto& built : templates_.all(call.tenant))
        out.emplace_back(template_json(*built, sandboxes_.limits_of(*built)));
    out.emplace_back(given_json(kBaseTemplate));
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

Task<Control::Answer> Control::page_templates(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(const auto limit, number_of(head, "limit", 1, 100, 100));
    BERTH_CO_TRY(const auto skip, number_of(head, "nextToken", 0, INT32_MAX, 0));
    const auto all = templates_.all(call.tenant);
    const auto total = all.size() + 1; // and base
    const auto first = std::min(total, static_cast<std::size_t>(skip));
    const auto last = std::min(total, first + static_cast<std::size_t>(limit));
    json::Array out;
    for (auto i = first; i < last; ++i)
        out.emplace_back(i < all.size() ? template_json(*all[i], sandboxes_.limits_of(*all[i]))
                                        : given_json(kBaseTemplate));
    auto response = http::json_response(200, json::dump(json::Value(std::move(out))));
    if (last < total) response.with("X-Next-Token", std::to_string(last));
    co_return response;
}

Task<Control::Answer> Control::get_template(Call& call)
{
    const auto& name = call.parameters.front();
    json::Array builds;
    json::Object out;
    const auto own = templates_.of_tenant(name, call.tenant);
    if (const auto given = given_template(name); !own && !given.empty()) {
        out = given_json(given);
    } else {
        BERTH_CO_TRY(const auto built, own);
        const auto held = sandboxes_.limits_of(*built);
        out = template_json(*built, held);
        for (auto at = built->builds.rbegin(); at != built->builds.rend(); ++at)
            builds.emplace_back(build_json(**at, held));
    }
    out["builds"] = std::move(builds);
    co_return http::json_response(200, out);
}

Task<Control::Answer> Control::change_template(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const bool shared, read_public(body));
    BERTH_CO_TRY(const auto built, templates_.of_tenant(call.parameters.front(), call.tenant));
    if (shared) co_return fail(Code::Invalid, "public: a template of this server is its tenant's alone");
    json::Object out;
    out["names"] = json::Array{full_name(*built)};
    co_return http::json_response(200, out);
}

Task<Control::Answer> Control::remove_template(Call& call)
{
    const std::string& id = call.parameters.front();
    // With a tag it is a snapshot: a template is removed as a whole, its tags by a call of their own.
    const auto built = templates_.of_tenant(id, call.tenant);
    if (const auto given = given_template(id); !built && !given.empty())
        co_return fail(Code::Denied, "template '{}' cannot be removed", given);
    if (built && id.find(':') == std::string::npos) {
        for (const auto& entry : sandboxes_.all())
            if (entry->template_id == (*built)->id)
                co_return fail(Code::Invalid, "template '{}' is used by sandbox '{}'", (*built)->alias,
                               entry->id);
        BERTH_CO_CHECK(co_await templates_.remove(*built));
        co_return http::empty_response();
    }
    BERTH_CO_TRY(const bool removed, co_await sandboxes_.remove_snapshot(id, call.tenant));
    if (!removed) co_return fail(Code::NotFound, "template '{}' not found", printable(id, 100));
    co_return http::empty_response();
}

Task<Control::Answer> Control::get_alias(Call& call)
{
    const auto& alias = call.parameters.front();
    json::Object out;
    const auto own = templates_.of_tenant(alias, call.tenant);
    if (const auto given = given_template(alias); !own && !given.empty()) {
        out["templateID"] = given;
        out["public"] = true;
    } else {
        BERTH_CO_TRY(const auto built, own);
        out["templateID"] = built->id;
        out["public"] = false;
    }
    co_return http::json_response(200, out);
}

Task<Control::Answer> Control::new_template(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(auto wish, read_new_template(body));
    BERTH_CO_TRY(const auto name, parse_template_name(wish.name));
    if (!templates_.of_tenant(name.alias, call.tenant)) {
        BERTH_CO_TRY(const bool taken, co_await sandboxes_.snapshot_named(name.alias, call.tenant));
        if (taken) co_return fail(Code::Conflict, "'{}' is the name of a snapshot", name.alias);
    }
    BERTH_CO_TRY(const auto one, co_await templates_.enrol(std::move(wish), call.tenant));
    json::Object out;
    out["templateID"] = one.built->id;
    out["buildID"] = one.build->id;
    out["public"] = false;
    out["names"] = json::Array{full_name(*one.built)};
    out["aliases"] = json::Array{one.built->alias};
    out["tags"] = texts(one.build->tags);
    co_return http::json_response(202, out);
}

Task<Control::Answer> Control::start_build(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(auto one, templates_.build_of(call.parameters[0], call.parameters[1], call.tenant));
    auto wish = read_build_start(body);
    // What we lack is as impossible as what nobody has.
    if (!wish && wish.error().code == Code::Unsupported) wish.error().code = Code::Invalid;
    if (!wish) co_return std::unexpected(std::move(wish).error());
    BERTH_CO_CHECK(co_await builder_.start(std::move(one), *std::move(wish)));
    co_return http::empty_response(202);
}

Task<Control::Answer> Control::build_status(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(const auto one, templates_.build_of(call.parameters[0], call.parameters[1], call.tenant));
    BERTH_CO_TRY(const auto offset, number_of(head, "logsOffset", 0, INT32_MAX, 0));
    BERTH_CO_TRY(const auto limit, number_of(head, "limit", 0, kMostLines, kMostLines));
    // Asked before the log: what comes in between is told with the next answer.
    const Build build = {.id = one.build->id,
                         .state = one.build->state,
                         .failure = one.build->failure,
                         .failed_step = one.build->failed_step};
    BERTH_CO_TRY(auto lines, co_await templates_.log(one.build));
    keep_level(lines, head.parameter("level"));
    json::Array logs, entries;
    const auto first = std::min(lines.size(), static_cast<std::size_t>(offset));
    const auto last = std::min(lines.size(), first + static_cast<std::size_t>(limit));
    for (std::size_t i = first; i < last; ++i) {
        logs.emplace_back(lines[i].message + "\n");
        entries.emplace_back(line_json(lines[i]));
    }
    json::Object out;
    out["templateID"] = one.built->id;
    out["buildID"] = build.id;
    out["status"] = to_string(build.state);
    out["logs"] = std::move(logs);
    out["logEntries"] = std::move(entries);
    if (build.state == BuildState::Error) {
        json::Object reason;
        reason["message"] = build.failure;
        if (!build.failed_step.empty()) reason["step"] = build.failed_step;
        out["reason"] = std::move(reason);
    }
    co_return http::json_response(200, out);
}

Task<Control::Answer> Control::build_logs(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(const auto one, templates_.build_of(call.parameters[0], call.parameters[1], call.tenant));
    BERTH_CO_TRY(const auto cursor, number_of(head, "cursor", 0, INT64_MAX / 2'000'000, 0));
    BERTH_CO_TRY(const auto limit, number_of(head, "limit", 0, kMostLines, kMostLines));
    const auto* const direction = head.parameter("direction");
    const bool backward = direction != nullptr && *direction == "backward";
    BERTH_CO_TRY(auto lines, co_await templates_.log(one.build));
    keep_level(lines, head.parameter("level"));
    if (backward) std::ranges::reverse(lines);
    json::Array out;
    for (const auto& line : lines) {
        const auto at =
            std::chrono::duration_cast<std::chrono::milliseconds>(line.time.time_since_epoch()).count();
        if (cursor != 0 && (backward ? at > cursor : at < cursor)) continue;
        if (out.size() == static_cast<std::size_t>(limit)) break;
        out.emplace_back(line_json(line));
    }
    json::Object answer;
    answer["logs"] = std::move(out);
    co_return http::json_response(200, answer);
}

Task<Control::Answer> Control::files_link(Call& call)
{
    BERTH_CO_TRY(const auto built, templates_.of_tenant(call.parameters[0], call.tenant));
    const auto& hash = call.parameters[1];
    if (!is_files_hash(hash)) co_return fail(Code::Invalid, "a files hash is 64 hexadecimal digits");
    BERTH_CO_TRY(const bool present, co_await files_.present(call.tenant, hash));
    json::Object out;
    out["present"] = present;
    // Under the name the client found us by.
    out["url"] = fmt::format("{}://{}/templates/upload?ticket={}", settings_.tls ? "https" : "http",
                             call.exchange.head().value("host"), files_.ticket(call.tenant, hash));
    co_return http::json_response(201, out);
}

Task<void> Control::take_files(http::Exchange& exchange)
{
    const auto* const ticket = exchange.head().parameter("ticket");
    const auto taken = co_await files_.take(exchange, ticket == nullptr ? std::string{} : *ticket);
    if (taken) {
        (void)co_await exchange.send(http::json_response(200, json::Object{}));
        co_return;
    }
    const bool large = taken.error().code == Code::Exhausted;
    const int status = large ? 413 : http::status_of(taken.error());
    (void)co_await exchange.send(http::json_response(status, error_body(status, taken.error().message)));
}

Task<Control::Answer> Control::add_tags(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_tags(body, "target"));
    BERTH_CO_TRY(const auto name, parse_template_name(wish.name));
    const auto one = templates_.find(name, call.tenant);
    if (!one) co_return fail(Code::NotFound, "template '{}' not found", printable(wish.name, 100));
    BERTH_CO_CHECK(co_await templates_.tag(one->built, one->build, wish.tags));
    json::Object out;
    out["tags"] = texts(wish.tags);
    out["buildID"] = one->build->id;
    co_return http::json_response(201, out);
}

Task<Control::Answer> Control::remove_tags(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
    BERTH_CO_TRY(const auto wish, read_tags(body, "name"));
    BERTH_CO_TRY(const auto built, templates_.of_tenant(wish.name, call.tenant));
    BERTH_CO_CHECK(co_await templates_.untag(built, wish.tags));
    co_return http::empty_response();
}

Task<Control::Answer> Control::list_tags(Call& call)
{
    BERTH_CO_TRY(const auto built, templates_.of_tenant(call.parameters.front(), call.tenant));
    json::Array out;
    for (const auto& [tag, build] : built->tags) {
        const auto since = built->tagged.find(tag);
        json::Object one;
        one["tag"] = tag;
        one["buildID"] = build;
        one["createdAt"] = rfc3339(since == built->tagged.end() ? built->created : since->second);
        out.emplace_back(std::move(one));
    }
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

} // namespace berth::e2b
