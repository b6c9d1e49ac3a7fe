#include "store/sqlite/record_copy.hpp"

#include "core/spec_json.hpp"
#include "store/sqlite/record_rows.hpp"

namespace berth::store {

namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 62;
constexpr json::Limits kLimits{.bytes = 16u << 20};

Status text_at(const json::Reader& at, std::string_view name, std::string& out)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(out, member.string());
    return {};
}

Result<std::int64_t> number_at(const json::Reader& at, std::string_view name)
{
    BERTH_TRY(const auto member, at.at(name));
    return member.integer(0, kMany);
}

Status time_at(const json::Reader& at, std::string_view name, WallTime& out)
{
    BERTH_TRY(const auto number, number_at(at, name));
    out = wall_time(number);
    return {};
}

Status seconds_at(const json::Reader& at, std::string_view name, std::optional<std::chrono::seconds>& out)
{
    BERTH_TRY(const auto number, number_at(at, name));
    if (number > 0) out = std::chrono::seconds(number);
    return {};
}

std::int64_t count(const std::optional<std::chrono::seconds>& time) { return time ? time->count() : 0; }

} // namespace

std::string copy_of(const SandboxRecord& record)
{
    json::Object out;
    out["spec"] = to_json(record.spec);
    out["key"] = record.key;
    out["backend"] = record.backend;
    out["native"] = record.native;
    out["state"] = to_string(record.state);
    out["generation"] = record.generation;
    out["spec_hash"] = record.spec_hash;
    out["snapshot"] = record.latest_snapshot;
    out["superseded_by"] = record.superseded_by;
    out["idle"] = count(record.retention.idle);
    out["on_idle"] = to_string(record.retention.on_idle);
    out["lifetime"] = count(record.retention.lifetime);
    out["created"] = ticks(record.created);
    out["changed"] = ticks(record.changed);
    out["last_used"] = ticks(record.last_used);
    return json::dump(out) + "\n";
}

Result<SandboxRecord> read_sandbox_copy(const std::string& text)
{
    BERTH_TRY(const auto document, json::parse(text, kLimits));
    const json::Reader at(document);
    SandboxRecord out;
    BERTH_TRY(const auto spec, at.at("spec"));
    BERTH_TRY(out.spec, read_spec(spec));
    BERTH_CHECK(text_at(at, "key", out.key));
    BERTH_CHECK(text_at(at, "backend", out.backend));
    BERTH_CHECK(text_at(at, "native", out.native));
    std::string word;
    BERTH_CHECK(text_at(at, "state", word));
    BERTH_TRY(out.state, read_state(word));
    BERTH_TRY(const auto generation, number_at(at, "generation"));
    out.generation = static_cast<std::uint64_t>(generation);
    BERTH_CHECK(text_at(at, "spec_hash", out.spec_hash));
    BERTH_CHECK(text_at(at, "snapshot", out.latest_snapshot));
    BERTH_CHECK(text_at(at, "superseded_by", out.superseded_by));
    BERTH_CHECK(seconds_at(at, "idle", out.retention.idle));
    BERTH_CHECK(text_at(at, "on_idle", word));
    BERTH_TRY(out.retention.on_idle, parse_on_idle(word));
    BERTH_CHECK(seconds_at(at, "lifetime", out.retention.lifetime));
    BERTH_CHECK(time_at(at, "created", out.created));
    BERTH_CHECK(time_at(at, "changed", out.changed));
    BERTH_CHECK(time_at(at, "last_used", out.last_used));
    return out;
}

std::string copy_of(const SnapshotRecord& snapshot)
{
    json::Object out;
    out["id"] = snapshot.id;
    out["sandbox"] = snapshot.sandbox;
    out["kind"] = snapshot.kind;
    out["backend"] = snapshot.backend;
    out["parent"] = snapshot.parent;
    out["note"] = snapshot.note;
    out["file"] = snapshot.file;
    out["sha256"] = snapshot.sha256;
    out["bytes"] = snapshot.bytes;
    out["live_copy"] = snapshot.live_copy;
    out["created"] = ticks(snapshot.created);
    out["spec"] = to_json(snapshot.spec);
    return json::dump(out) + "\n";
}

Result<SnapshotRecord> read_snapshot_copy(const std::string& text)
{
    BERTH_TRY(const auto document, json::parse(text, kLimits));
    const json::Reader at(document);
    SnapshotRecord out;
    BERTH_CHECK(text_at(at, "id", out.id));
    BERTH_CHECK(text_at(at, "sandbox", out.sandbox));
    BERTH_CHECK(text_at(at, "kind", out.kind));
    BERTH_CHECK(text_at(at, "backend", out.backend));
    BERTH_CHECK(text_at(at, "parent", out.parent));
    BERTH_CHECK(text_at(at, "note", out.note));
    BERTH_CHECK(text_at(at, "file", out.file));
    BERTH_CHECK(text_at(at, "sha256", out.sha256));
    BERTH_TRY(const auto bytes, number_at(at, "bytes"));
    out.bytes = static_cast<std::uint64_t>(bytes);
    BERTH_TRY(const auto live, at.at("live_copy"));
    BERTH_TRY(out.live_copy, live.boolean());
    BERTH_CHECK(time_at(at, "created", out.created));
    BERTH_TRY(const auto spec, at.at("spec"));
    BERTH_TRY(out.spec, read_spec(spec));
    return out;
}

} // namespace berth::store
