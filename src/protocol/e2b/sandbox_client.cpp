#include "protocol/e2b/sandbox_client.hpp"

#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"
#include "protocol/e2b/listing.hpp"

namespace berth::e2b {

namespace {

constexpr json::Limits kLimits{.bytes = std::size_t{8} << 20, .depth = 32};
constexpr std::size_t kLongestSecret = 4096;

json::Object texts(const std::map<std::string, std::string>& all)
{
    json::Object out;
    for (const auto& [name, value] : all) out[name] = value;
    return out;
}

/// A secret becomes a header: nothing but visible characters.
Result<std::string> read_secret(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(auto out, fields::text(reader, name));
    for (const char c : out)
        if (c <= ' ' || c >= 0x7f) return fail(Code::Invalid, "{} is no token", name);
    if (out.size() > kLongestSecret) return fail(Code::Invalid, "{} is no token", name);
    return out;
}

Result<SandboxView> read_view(const json::Reader& reader)
{
    SandboxView out;
    BERTH_TRY(out.id, fields::text(reader, "sandboxID"));
    if (!is_cloud_id(out.id)) return reader.refuse("no sandboxID that can be used");
    BERTH_TRY(out.template_id, fields::text(reader, "templateID"));
    BERTH_TRY(out.alias, fields::text(reader, "alias"));
    BERTH_TRY(out.token, read_secret(reader, "envdAccessToken"));
    BERTH_TRY(out.traffic_token, read_secret(reader, "trafficAccessToken"));
    BERTH_TRY(out.domain, fields::text(reader, "domain"));
    BERTH_TRY(const auto state, fields::text(reader, "state"));
    out.paused = state == "paused";
    BERTH_TRY(const auto started, fields::text(reader, "startedAt"));
    if (!started.empty()) {
        BERTH_TRY(out.started, parse_rfc3339(started));
    }
    BERTH_TRY(out.metadata, fields::texts(reader, "metadata"));
    return out;
}

} // namespace

bool is_cloud_id(std::string_view id) noexcept
{
    if (id.empty() || id.size() > 63) return false;
    for (const char c : id)
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) return false;
    return true;
}

std::string new_sandbox_body(const NewSandbox& wish, ApiVersion version)
{
    json::Object out;
    out["templateID"] = wish.template_id;
    out["timeout"] = wish.timeout.count();
    if (wish.auto_pause) out["autoPause"] = true;
    if (wish.allow_internet) out["allow_internet_access"] = *wish.allow_internet;
    if (!wish.metadata.empty()) out["metadata"] = texts(wish.metadata);
    if (!wish.env.empty()) out["envVars"] = texts(wish.env);
    // The newer form is always secured; the older one only when that is asked for.
    if (version == ApiVersion::V1) out["secure"] = true;
    return json::dump(out);
}

std::string time_body(std::chrono::seconds time)
{
    json::Object out;
    out["timeout"] = time.count();
    return json::dump(out);
}

std::string memory_body(bool keep)
{
    json::Object out;
    out["memory"] = keep;
    return json::dump(out);
}

std::string name_body(std::string_view name)
{
    json::Object out;
    if (!name.empty()) out["name"] = name;
    return json::dump(out);
}

Result<SandboxView> read_sandbox(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text, kLimits));
    return read_view(json::Reader(document));
}

Result<std::vector<SandboxView>> read_sandboxes(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text, kLimits));
    BERTH_TRY(const auto list, json::Reader(document).array());
    std::vector<SandboxView> out;
    for (const auto& one : list) {
        BERTH_TRY(out.emplace_back(), read_view(one));
    }
    return out;
}

Result<std::string> read_snapshot(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text, kLimits));
    BERTH_TRY(auto out, fields::text(json::Reader(document), "snapshotID"));
    if (out.empty() || out.size() > 500) return fail(Code::Invalid, "the answer names no snapshot");
    return out;
}

std::string read_message(std::string_view text)
{
    const auto document = json::parse(text, {.bytes = 1u << 20, .depth = 16});
    if (!document || !document->is_object()) return {};
    auto message = fields::text(json::Reader(*document), "message");
    return message ? *std::move(message) : std::string{};
}

} // namespace berth::e2b
