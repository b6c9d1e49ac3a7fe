#include "server/e2b/entry.hpp"

#include <algorithm>

#include "base/json_reader.hpp"
#include "protocol/e2b/fields.hpp"

namespace berth::e2b {

namespace {

std::int64_t count(WallTime time) { return time.time_since_epoch().count(); }

json::Object texts(const std::map<std::string, std::string>& from)
{
    json::Object out;
    for (const auto& [name, value] : from) out[name] = value;
    return out;
}

Result<WallTime> time_at(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(const auto number, fields::whole(from, name, 0, INT64_MAX));
    return WallTime(std::chrono::nanoseconds(number));
}

} // namespace

bool is_sandbox_id(std::string_view id) noexcept
{
    return !id.empty() && id.size() <= 64 &&
           std::ranges::all_of(id, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

std::string render(const Entry& entry)
{
    json::Object out;
    out["v"] = 1;
    out["id"] = entry.id;
    out["tenant"] = entry.tenant;
    out["template"] = entry.template_id;
    out["alias"] = entry.alias;
    out["token"] = entry.token;
    out["trafficToken"] = entry.traffic_token;
    out["maskHost"] = entry.ingress.mask_host;
    out["httpsPorts"] = ports_json(entry.ingress.https_ports);
    out["timeout"] = entry.timeout.count();
    out["started"] = count(entry.started);
    out["end"] = count(entry.end);
    out["paused"] = entry.paused;
    out["keptMemory"] = entry.kept_memory;
    out["autoPause"] = entry.auto_pause;
    out["autoPauseMemory"] = entry.auto_pause_memory;
    out["autoResume"] = entry.auto_resume;
    out["metadata"] = texts(entry.metadata);
    out["env"] = texts(entry.env);
    out["templateEnv"] = texts(entry.template_env);
    json::Array volumes;
    for (const auto& one : entry.volumes)
        volumes.emplace_back(json::Object{{"name", one.name}, {"path", one.path}});
    out["volumes"] = std::move(volumes);
    out["user"] = entry.user;
    out["workdir"] = entry.workdir;
    out["ownAccounts"] = entry.own_accounts;
    out["interpreter"] = entry.interpreter;
    out["startCmd"] = entry.start_cmd;
    out["readyCmd"] = entry.ready_cmd;
    return json::dump(out) + "\n";
}

Result<Entry> parse_entry(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    Entry out;
    BERTH_TRY(out.id, fields::text(reader, "id"));
    if (!is_sandbox_id(out.id)) return reader.refuse("no id");
    BERTH_TRY(out.tenant, fields::text(reader, "tenant"));
    BERTH_TRY(out.template_id, fields::text(reader, "template"));
    BERTH_TRY(out.alias, fields::text(reader, "alias"));
    BERTH_TRY(out.token, fields::text(reader, "token"));
    BERTH_TRY(out.traffic_token, fields::text(reader, "trafficToken"));
    BERTH_TRY(out.ingress.mask_host, fields::text(reader, "maskHost"));
    BERTH_TRY(out.ingress.https_ports, read_ports(reader, "httpsPorts"));
    BERTH_TRY(const auto timeout, fields::whole(reader, "timeout", 0, INT32_MAX));
    out.timeout = std::chrono::seconds(timeout);
    BERTH_TRY(out.started, time_at(reader, "started"));
    BERTH_TRY(out.end, time_at(reader, "end"));
    BERTH_TRY(out.paused, fields::flag(reader, "paused"));
    BERTH_TRY(out.kept_memory, fields::flag(reader, "keptMemory"));
    BERTH_TRY(out.auto_pause, fields::flag(reader, "autoPause"));
    BERTH_TRY(out.auto_pause_memory, fields::flag(reader, "autoPauseMemory"));
    BERTH_TRY(out.auto_resume, fields::flag(reader, "autoResume"));
    BERTH_TRY(out.metadata, fields::texts(reader, "metadata"));
    BERTH_TRY(out.env, fields::texts(reader, "env"));
    BERTH_TRY(out.template_env, fields::texts(reader, "templateEnv"));
    BERTH_TRY(const auto user, fields::text(reader, "user"));
    if (!user.empty()) out.user = user; // an older server wrote none
    BERTH_TRY(out.workdir, fields::text(reader, "workdir"));
    BERTH_TRY(out.own_accounts, fields::flag(reader, "ownAccounts"));
    BERTH_TRY(out.interpreter, fields::flag(reader, "interpreter"));
    BERTH_TRY(out.start_cmd, fields::text(reader, "startCmd"));
    BERTH_TRY(out.ready_cmd, fields::text(reader, "readyCmd"));
    BERTH_TRY(const auto volumes, reader.at("volumes"));
    BERTH_TRY(const auto list, volumes.array());
    for (const auto& one : list) {
        VolumeMount mount;
        BERTH_TRY(mount.name, fields::text(one, "name"));
        BERTH_TRY(mount.path, fields::text(one, "path"));
        out.volumes.push_back(std::move(mount));
    }
    return out;
}

} // namespace berth::e2b
