#include "lifecycle/events.hpp"

#include "base/strings.hpp"
#include "lifecycle/borrowed.hpp"

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

json::Array volumes_of(const SandboxSpec& spec)
{
    json::Array out;
    for (const auto& volume : spec.volumes) {
        json::Object one;
        one["name"] = volume.name;
        one["mount_path"] = volume.target;
        one["mode"] = volume.writable ? "rw" : "ro";
        out.emplace_back(std::move(one));
    }
    return out;
}

/// What was borrowed, in its backend's words, which are exo's where it has some; else by our own name of it.
json::Value attachment(const SandboxRecord& record)
{
    if (auto told = attachment_of(record); !told.is_null()) return told;
    return json::Object{{"type", record.backend}, {"id", record.native}};
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
    out.data["durable_file_systems"] = volumes_of(record.spec);
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

LedgerEvent attached(const SandboxRecord& record)
{
    auto out = other(record, "sandbox_attached", record.native);
    out.data["attachment"] = attachment(record);
    out.data["default_workdir"] = record.spec.workdir;
    return out;
}

LedgerEvent detached(const SandboxRecord& record)
{
    auto out = other(record, "sandbox_detached", record.native);
    out.data["attachment"] = attachment(record);
    return out;
}

LedgerEvent snapshotted(const SnapshotRecord& snapshot)
{
    auto out = make(snapshot.sandbox, "sandbox_snapshotted");
    out.data["snapshot_id"] = snapshot.id;
    out.data["kind"] = snapshot.kind;
    out.data["live_copy"] = snapshot.live_copy;
    return out;
}

LedgerEvent exec_started(const ExecRecord& exec, const ExecSpec& spec)
{
    auto out = make(exec.sandbox, "sandbox_process_started");
    out.data["process_id"] = exec.id;
    json::Array argv;
    for (const auto& word : exec.argv) argv.emplace_back(printable_utf8(word));
    out.data["command"] = std::move(argv);
    if (!exec.cwd.empty()) out.data["cwd"] = printable_utf8(exec.cwd);
    out.data["mode"] = spec.terminal ? "pty" : "exec";
    out.data["stdin"] = spec.input == ExecSpec::Stdin::Open ? "open" : "none";
    // Every output is in a log as it comes, and no command ends with whoever started it.
    out.data["output"] = "stream";
    out.data["lifecycle"] = "detached";
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
