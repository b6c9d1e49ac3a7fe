#include "cli/record_json.hpp"

#include "base/brief.hpp"

namespace berth::cli {

namespace {

json::Value seconds_or_null(const std::optional<std::chrono::seconds>& time)
{
    return time ? json::Value(time->count()) : json::Value(nullptr);
}

json::Object pairs(const std::map<std::string, std::string>& all)
{
    json::Object out;
    for (const auto& [name, value] : all) out[name] = value;
    return out;
}

} // namespace

json::Value text_or_null(const std::string& text)
{
    return text.empty() ? json::Value(nullptr) : json::Value(text);
}

json::Value time_or_null(WallTime time)
{
    return time == WallTime{} ? json::Value(nullptr) : json::Value(rfc3339(time));
}

json::Array text_array(const std::vector<std::string>& all)
{
    json::Array out;
    for (const auto& text : all) out.emplace_back(text);
    return out;
}

json::Object record_json(const SandboxRecord& record)
{
    json::Object out;
    out["id"] = record.id();
    out["name"] = text_or_null(record.spec.name);
    out["key"] = text_or_null(record.key);
    out["backend"] = record.backend;
    out["native"] = text_or_null(record.native);
    out["state"] = to_string(record.state);
    out["generation"] = record.generation;
    out["template"] = to_string(record.spec.root);
    out["labels"] = pairs(record.spec.labels);
    out["idle_seconds"] = seconds_or_null(record.retention.idle);
    out["on_idle"] = to_string(record.retention.on_idle);
    out["lifetime_seconds"] = seconds_or_null(record.retention.lifetime);
    out["latest_snapshot"] = text_or_null(record.latest_snapshot);
    out["superseded_by"] = text_or_null(record.superseded_by);
    out["failure"] = text_or_null(record.failure);
    out["spec_hash"] = text_or_null(record.spec_hash);
    out["created"] = time_or_null(record.created);
    out["changed"] = time_or_null(record.changed);
    out["last_used"] = time_or_null(record.last_used);
    out["due"] = time_or_null(record.due);
    return out;
}

json::Object acquired_json(const Acquired& acquired)
{
    json::Object out = record_json(acquired.record);
    out["outcome"] = to_string(acquired.tier);
    out["snapshot"] = text_or_null(acquired.snapshot);
    out["lost_seconds"] =
        acquired.lost ? json::Value(std::chrono::duration<double>(*acquired.lost).count()) : nullptr;
    out["unsynced_since"] = time_or_null(acquired.unsynced_since.value_or(WallTime{}));
    out["notes"] = text_array(acquired.notes);
    return out;
}

json::Object snapshot_json(const SnapshotRecord& snapshot)
{
    json::Object out;
    out["id"] = snapshot.id;
    out["sandbox"] = snapshot.sandbox;
    out["kind"] = snapshot.kind;
    out["backend"] = snapshot.backend;
    out["parent"] = text_or_null(snapshot.parent);
    out["note"] = text_or_null(snapshot.note);
    out["bytes"] = snapshot.bytes;
    out["sha256"] = text_or_null(snapshot.sha256);
    out["live_copy"] = snapshot.live_copy;
    out["created"] = time_or_null(snapshot.created);
    return out;
}

json::Object exec_json(const ExecRecord& exec)
{
    json::Object out;
    out["id"] = exec.id;
    out["generation"] = exec.generation;
    out["argv"] = text_array(exec.argv);
    out["workdir"] = text_or_null(exec.cwd);
    out["user"] = text_or_null(exec.user);
    out["started"] = time_or_null(exec.started);
    out["ended"] = time_or_null(exec.ended);
    out["running"] = exec.ended == WallTime{};
    out["outcome"] = text_or_null(exec.outcome);
    return out;
}

json::Object ledger_json(const LedgerEvent& event)
{
    json::Object out;
    out["sequence"] = event.sequence;
    out["time"] = time_or_null(event.time);
    out["sandbox"] = text_or_null(event.sandbox);
    out["type"] = event.type;
    out["data"] = event.data;
    return out;
}

} // namespace berth::cli
