#include "lifecycle/events.hpp"

#include "base/strings.hpp"

namespace berth::events {

namespace {

LedgerEvent make(const std::string& sandbox, std::string_view type)
{
    LedgerEvent out;
    out.sandbox = sandbox;
    out.type = type;
    out.data["sandbox_id"] = sandbox;
    return out;
}

json::Array mounts_of(const SandboxSpec& spec)
{
    json::Array out;
    for (const auto& mount : spec.mounts) {
        json::Object one;
        one["host_path"] = mount.source;
        one["mount_path"] = mount.target;
        one["mode"] = to_string(mount.mode);
        out.emplace_back(std::move(one));
    }
    return out;
}

} // namespace

LedgerEvent created(const SandboxRecord& record)
{
    auto out = make(record.id(), "sandbox_created");
    if (!record.spec.name.empty()) out.data["name"] = record.spec.name;
    if (!record.key.empty()) out.data["key"] = record.key;
    out.data["provider"] = record.backend;
    out.data["image"] = to_string(record.spec.root);
    out.data["default_workdir"] = record.spec.workdir;
    out.data["file_system_mounts"] = mounts_of(record.spec);
    out.data["enable_networking"] = record.spec.policy.network != policy::Network::Off;
    if (record.retention.idle) out.data["idle_seconds"] = record.retention.idle->count();
    out.data["generation"] = record.generation;
    return out;
}

LedgerEvent started(const SandboxRecord& record, std::string_view snapshot)
{
    auto out = make(record.id(), "sandbox_started");
    if (!snapshot.empty()) out.data["snapshot_id"] = snapshot;
    out.data["generation"] = record.generation;
    return out;
}

LedgerEvent stopped(const SandboxRecord& record) { return make(record.id(), "sandbox_stopped"); }

LedgerEvent snapshotted(const SnapshotRecord& snapshot)
{
    auto out = make(snapshot.sandbox, "sandbox_snapshotted");
    out.data["snapshot_id"] = snapshot.id;
    out.data["kind"] = snapshot.kind;
    out.data["live_copy"] = snapshot.live_copy;
    return out;
}

LedgerEvent exec_started(const ExecRecord& exec)
{
    auto out = make(exec.sandbox, "sandbox_process_started");
    out.data["process_id"] = exec.id;
    json::Array argv;
    for (const auto& word : exec.argv) argv.emplace_back(printable_utf8(word));
    out.data["command"] = std::move(argv);
    out.data["status"] = "running";
    return out;
}

LedgerEvent exec_ended(const ExecRecord& exec)
{
    auto out = make(exec.sandbox, "sandbox_process_state_updated");
    out.data["process_id"] = exec.id;
    out.data["status"] = exec.outcome;
    return out;
}

LedgerEvent other(const SandboxRecord& record, std::string_view type, std::string_view reason)
{
    auto out = make(record.id(), type);
    if (!reason.empty()) out.data["reason"] = reason;
    return out;
}

} // namespace berth::events
