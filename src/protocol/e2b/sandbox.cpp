#include "protocol/e2b/sandbox.hpp"

#include <cmath>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"

namespace berth::e2b {

namespace {

constexpr std::int64_t kLongest = 365LL * 24 * 3600;

Result<json::Value> parse_body(std::string_view text)
{
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::Value(json::Object{});
    BERTH_TRY(auto document, json::parse(text));
    if (!document.is_object()) return fail(Code::Invalid, "the body must be a JSON object");
    return document;
}

Result<std::vector<std::string>> list_of(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(const auto there, from.find(name));
    if (!there) return std::vector<std::string>{};
    return there->strings();
}

bool present(const json::Reader& from, std::string_view name)
{
    const auto there = from.find(name);
    if (!there || !*there) return false;
    const auto& value = (*there)->value();
    if (value.is_array()) return !value.get_array().empty();
    if (value.is_object()) return !value.get_object().empty();
    return true;
}

constexpr std::string_view kFiner =
    "finer network rules need an egress proxy, which this server does not have: all of the network, or "
    "denyOut with 0.0.0.0/0 for none";

/// True when everything is denied. What is between all and nothing is refused.
Result<bool> read_egress(const json::Reader& network)
{
    for (const auto* const name : {"allowOut", "rules", "egressProxy"})
        if (present(network, name)) return fail(Code::Invalid, "network.{}: {}", name, kFiner);
    BERTH_TRY(const auto deny, list_of(network, "denyOut"));
    if (deny.empty()) return false;
    for (const auto& block : deny)
        if (block != "0.0.0.0/0" && block != "::/0")
            return fail(Code::Invalid, "network.denyOut '{}': {}", printable(block, 60), kFiner);
    return true;
}

Status read_network(const json::Reader& network, NewSandbox& out)
{
    BERTH_TRY(const bool denied, read_egress(network));
    if (denied) out.allow_internet = false;
    BERTH_TRY(out.public_traffic, fields::flag(network, "allowPublicTraffic", true));
    BERTH_TRY(out.ingress.mask_host, fields::text(network, "maskRequestHost"));
    if (out.ingress.mask_host.find_first_of("\r\n\t ") != std::string::npos)
        return fail(Code::Invalid, "network.maskRequestHost is not a host name");
    BERTH_TRY(out.ingress.https_ports, read_ports(network, "httpsPorts"));
    return {};
}

Status read_lifecycle(const json::Reader& reader, NewSandbox& out)
{
    BERTH_TRY(out.auto_pause, fields::flag(reader, "autoPause"));
    BERTH_TRY(const auto memory, fields::maybe_flag(reader, "autoPauseMemory"));
    out.auto_pause_memory = memory.value_or(true);
    BERTH_TRY(const auto resume, reader.find("autoResume"));
    if (resume) {
        BERTH_TRY(out.auto_resume, fields::flag(*resume, "enabled"));
    }
    if (!out.auto_pause_memory && !out.auto_pause)
        return fail(Code::Invalid, "autoPauseMemory false needs autoPause");
    if (!out.auto_pause_memory && out.auto_resume)
        return fail(Code::Invalid, "autoPauseMemory false and autoResume exclude each other");
    return {};
}

json::Object texts_json(const std::map<std::string, std::string>& texts)
{
    json::Object out;
    for (const auto& [name, value] : texts) out[name] = value;
    return out;
}

} // namespace

Result<NewSandbox> read_new_sandbox(std::string_view text, ApiVersion version)
{
    BERTH_TRY(const auto document, parse_body(text));
    const json::Reader reader(document);
    NewSandbox out;
    BERTH_TRY(out.template_id, fields::text(reader, "templateID"));
    if (out.template_id.empty()) return fail(Code::Invalid, "templateID is missing");
    const std::int64_t otherwise = version == ApiVersion::V1 ? 15 : 300;
    BERTH_TRY(const auto timeout, fields::whole(reader, "timeout", INT32_MIN, kLongest, otherwise));
    if (timeout <= 0) return fail(Code::Invalid, "timeout must be greater than 0");
    out.timeout = std::chrono::seconds(timeout);
    BERTH_CHECK(read_lifecycle(reader, out));
    if (version == ApiVersion::V1) {
        BERTH_TRY(out.secure, fields::flag(reader, "secure"));
    }
    BERTH_TRY(const auto internet, reader.find("allow_internet_access"));
    if (internet) {
        BERTH_TRY(out.allow_internet, internet->boolean());
    }
    BERTH_TRY(const auto network, reader.find("network"));
    if (network) BERTH_CHECK(read_network(*network, out));
    if (!out.public_traffic && !out.secure)
        return fail(Code::Invalid, "allowPublicTraffic false needs a secured sandbox");
    BERTH_TRY(out.metadata, fields::texts(reader, "metadata"));
    BERTH_TRY(out.env, fields::texts(reader, "envVars"));
    // The client itself starts the gateway inside; a template has its program, or the client is told.
    BERTH_TRY(const auto gateway, reader.find("mcp"));
    if (gateway && !gateway->value().is_object()) return fail(Code::Invalid, "mcp is not an object");
    if (present(reader, "iam")) return fail(Code::Unsupported, "iam is not supported by this server");
    BERTH_TRY(const auto volumes, reader.find("volumeMounts"));
    if (!volumes) return out;
    BERTH_TRY(const auto list, volumes->array());
    for (const auto& one : list) {
        VolumeMount mount;
        BERTH_TRY(mount.name, fields::text(one, "name"));
        BERTH_TRY(mount.path, fields::text(one, "path"));
        out.volumes.push_back(std::move(mount));
    }
    return out;
}

Result<bool> read_network_update(std::string_view text)
{
    BERTH_TRY(const auto document, parse_body(text));
    const json::Reader reader(document);
    BERTH_TRY(const bool denied, read_egress(reader));
    BERTH_TRY(const auto internet, reader.find("allow_internet_access"));
    if (!internet) return denied;
    BERTH_TRY(const bool allowed, internet->boolean());
    return denied || !allowed;
}

Result<TimeWish> read_time(std::string_view text, std::string_view field)
{
    BERTH_TRY(const auto document, parse_body(text));
    const json::Reader reader(document);
    TimeWish out;
    BERTH_TRY(const auto time, fields::maybe_whole(reader, field, INT32_MIN, kLongest));
    if (time && *time < 0) return fail(Code::Invalid, "{} must not be negative", field);
    if (time) out.time = std::chrono::seconds(*time);
    BERTH_TRY(out.memory, fields::maybe_flag(reader, "memory"));
    BERTH_TRY(out.auto_pause, fields::maybe_flag(reader, "autoPause"));
    return out;
}

Result<ForkRequest> read_fork(std::string_view text)
{
    BERTH_TRY(const auto document, parse_body(text));
    const json::Reader reader(document);
    ForkRequest out;
    BERTH_TRY(const auto timeout, fields::whole(reader, "timeout", 1, kLongest, 15));
    out.timeout = std::chrono::seconds(timeout);
    BERTH_TRY(const auto count, fields::whole(reader, "count", INT32_MIN, INT32_MAX, 1));
    if (count < 1 || count > 100) return fail(Code::Invalid, "count must be 1 to 100");
    out.count = static_cast<std::size_t>(count);
    return out;
}

Result<std::vector<std::uint16_t>> read_ports(const json::Reader& from, std::string_view name)
{
    constexpr std::size_t most = 128;
    std::vector<std::uint16_t> out;
    BERTH_TRY(const auto there, from.find(name));
    if (!there) return out;
    BERTH_TRY(const auto list, there->array());
    if (list.size() > most) return there->refuse("{} ports, at most {} are taken", list.size(), most);
    for (const auto& one : list) {
        BERTH_TRY(const auto port, one.integer(1, 65535));
        out.push_back(static_cast<std::uint16_t>(port));
    }
    return out;
}

json::Array ports_json(const std::vector<std::uint16_t>& ports)
{
    json::Array out;
    for (const auto port : ports) out.emplace_back(port);
    return out;
}

namespace {

/// What is held of what was asked for.
json::Object network_json(const SandboxView& sandbox)
{
    json::Object out;
    out["allowPublicTraffic"] = sandbox.traffic_token.empty();
    if (!sandbox.ingress.mask_host.empty()) out["maskRequestHost"] = sandbox.ingress.mask_host;
    if (!sandbox.ingress.https_ports.empty()) out["httpsPorts"] = ports_json(sandbox.ingress.https_ports);
    return out;
}

} // namespace

json::Object sandbox_json(const SandboxView& sandbox)
{
    json::Object out;
    out["sandboxID"] = sandbox.id;
    out["templateID"] = sandbox.template_id;
    if (!sandbox.alias.empty()) out["alias"] = sandbox.alias;
    out["clientID"] = kClientId;
    out["envdVersion"] = kEnvdVersion;
    if (!sandbox.token.empty()) out["envdAccessToken"] = sandbox.token;
    // Null, not empty, when it is not used: clients would send an empty one.
    if (sandbox.traffic_token.empty())
        out["trafficAccessToken"] = nullptr;
    else
        out["trafficAccessToken"] = sandbox.traffic_token;
    if (sandbox.domain.empty())
        out["domain"] = nullptr;
    else
        out["domain"] = sandbox.domain;
    return out;
}

json::Object listed_json(const SandboxView& sandbox)
{
    json::Object out;
    out["sandboxID"] = sandbox.id;
    out["templateID"] = sandbox.template_id;
    if (!sandbox.alias.empty()) out["alias"] = sandbox.alias;
    out["clientID"] = kClientId;
    out["startedAt"] = rfc3339(sandbox.started);
    out["endAt"] = rfc3339(sandbox.end);
    out["state"] = sandbox.paused ? "paused" : "running";
    out["cpuCount"] = sandbox.cpus;
    out["memoryMB"] = sandbox.memory_mb;
    out["diskSizeMB"] = sandbox.disk_mb;
    out["envdVersion"] = kEnvdVersion;
    if (!sandbox.metadata.empty()) out["metadata"] = texts_json(sandbox.metadata);
    if (!sandbox.volumes.empty()) {
        json::Array mounts;
        for (const auto& one : sandbox.volumes) {
            json::Object mount;
            mount["name"] = one.name;
            mount["path"] = one.path;
            mounts.emplace_back(std::move(mount));
        }
        out["volumeMounts"] = std::move(mounts);
    }
    return out;
}

json::Object detail_json(const SandboxView& sandbox)
{
    json::Object out = listed_json(sandbox);
    if (!sandbox.token.empty()) out["envdAccessToken"] = sandbox.token;
    // What is held, whatever was asked for: there is no way out.
    out["allowInternetAccess"] = false;
    out["network"] = network_json(sandbox);
    if (sandbox.domain.empty())
        out["domain"] = nullptr;
    else
        out["domain"] = sandbox.domain;
    json::Object lifecycle;
    lifecycle["onTimeout"] = sandbox.auto_pause ? "pause" : "kill";
    lifecycle["autoResume"] = sandbox.auto_resume;
    out["lifecycle"] = std::move(lifecycle);
    return out;
}

json::Object metric_json(const Metric& metric)
{
    json::Object out;
    out["timestamp"] = rfc3339(metric.time);
    out["timestampUnix"] =
        std::chrono::duration_cast<std::chrono::seconds>(metric.time.time_since_epoch()).count();
    out["cpuCount"] = metric.cpus;
    out["cpuUsedPct"] = std::round(metric.cpu_percent * 100) / 100;
    out["memUsed"] = metric.memory;
    out["memTotal"] = metric.memory_total;
    out["memCache"] = metric.memory_cache;
    out["diskUsed"] = metric.disk;
    out["diskTotal"] = metric.disk_total;
    return out;
}

std::string error_body(int status, std::string_view message)
{
    json::Object out;
    out["code"] = status;
    out["message"] = printable_utf8(message);
    return json::dump(out);
}

} // namespace berth::e2b
