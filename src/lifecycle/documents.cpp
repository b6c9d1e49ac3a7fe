#include "lifecycle/documents.hpp"

#include <algorithm>

#include "base/brief.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "core/admit.hpp"
#include "lifecycle/borrowed.hpp"
#include "lifecycle/told_end.hpp"

namespace berth::documents {

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

json::Object record(const SandboxRecord& one)
{
    json::Object out;
    out["id"] = one.id();
    out["name"] = text_or_null(one.spec.name);
    out["key"] = text_or_null(one.key);
    out["backend"] = one.backend;
    out["native"] = text_or_null(one.native);
    out["attachment"] = attachment_of(one);
    out["state"] = to_string(one.state);
    out["generation"] = one.generation;
    out["template"] = to_string(one.spec.root);
    out["labels"] = pairs(one.spec.labels);
    out["idle_seconds"] = seconds_or_null(one.retention.idle);
    out["on_idle"] = to_string(one.retention.on_idle);
    out["lifetime_seconds"] = seconds_or_null(one.retention.lifetime);
    out["latest_snapshot"] = text_or_null(one.latest_snapshot);
    out["superseded_by"] = text_or_null(one.superseded_by);
    out["failure"] = text_or_null(one.failure);
    if (!one.damage.empty()) out["damage"] = one.damage;
    out["spec_hash"] = text_or_null(one.spec_hash);
    out["created"] = time_or_null(one.created);
    out["changed"] = time_or_null(one.changed);
    out["last_used"] = time_or_null(one.last_used);
    out["due"] = time_or_null(one.due);
    return out;
}

json::Object outcome(const Acquired& one)
{
    json::Object out;
    out["outcome"] = to_string(one.tier);
    out["snapshot"] = text_or_null(one.snapshot);
    out["lost_seconds"] = one.lost ? json::Value(std::chrono::duration<double>(*one.lost).count()) : nullptr;
    out["unsynced_since"] = time_or_null(one.unsynced_since.value_or(WallTime{}));
    out["notes"] = text_array(one.notes);
    return out;
}

json::Object acquired(const Acquired& one)
{
    json::Object out = record(one.record);
    for (auto& member : outcome(one)) out[member.key()] = std::move(member.value());
    return out;
}

json::Object snapshot(const SnapshotRecord& one)
{
    json::Object out;
    out["id"] = one.id;
    out["sandbox"] = one.sandbox;
    out["kind"] = one.kind;
    out["backend"] = one.backend;
    out["parent"] = text_or_null(one.parent);
    out["note"] = text_or_null(one.note);
    out["bytes"] = one.bytes == 0 ? json::Value(nullptr) : json::Value(one.bytes);
    out["sha256"] = text_or_null(one.sha256);
    out["live_copy"] = one.live_copy;
    out["created"] = time_or_null(one.created);
    return out;
}

json::Object exec(const ExecRecord& one)
{
    json::Object out;
    out["id"] = one.id;
    out["generation"] = one.generation;
    out["argv"] = text_array(one.argv);
    out["workdir"] = text_or_null(one.cwd);
    out["user"] = text_or_null(one.user);
    out["started"] = time_or_null(one.started);
    out["ended"] = time_or_null(one.ended);
    out["running"] = one.ended == WallTime{};
    out["outcome"] = text_or_null(one.outcome);
    out["timeout_seconds"] =
        one.timeout ? json::Value(std::chrono::duration<double>(*one.timeout).count()) : json::Value(nullptr);
    return out;
}

json::Object ledger(const LedgerEvent& event)
{
    json::Object out;
    out["sequence"] = event.sequence;
    out["time"] = time_or_null(event.time);
    out["sandbox"] = text_or_null(event.sandbox);
    out["type"] = event.type;
    out["data"] = event.data;
    return out;
}

json::Object event(const ExecEvent& one, bool timed_out)
{
    json::Object out;
    out["event"] = std::string_view(to_string(one.kind));
    out["seq"] = one.sequence;
    out["time_ns"] = one.time.time_since_epoch().count();
    switch (one.kind) {
    case ExecEvent::Kind::Stdout:
    case ExecEvent::Kind::Stderr:
    case ExecEvent::Kind::Pty: out["data"] = base64_encode(one.bytes); break;
    case ExecEvent::Kind::Exit:
        out["status"] = timed_out ? told_end(one.status, true) : to_string(one.status);
        out["timed_out"] = timed_out;
        if (const auto code = one.status.code()) out["code"] = *code;
        if (const auto signal = one.status.signal()) out["signal"] = *signal;
        break;
    case ExecEvent::Kind::Gap: out["bytes"] = one.gap_bytes; break;
    case ExecEvent::Kind::Start:
    case ExecEvent::Kind::Closed: break;
    }
    return out;
}

json::Object yielded(const std::string& sandbox, const Yielded& one)
{
    json::Object out;
    out["exec"] = one.exec;
    out["sandbox"] = sandbox;
    out["running"] = !one.status.has_value();
    if (one.status) {
        out["status"] = one.timed_out ? told_end(*one.status, true) : to_string(*one.status);
        out["timed_out"] = one.timed_out;
        if (const auto code = one.status->code()) out["code"] = *code;
        if (const auto signal = one.status->signal()) out["signal"] = *signal;
    }
    if (one.taken) out["taken"] = *one.taken;
    out["output"] = printable_utf8(one.output);
    out["output_base64"] = base64_encode(one.output);
    out["next_seq"] = one.next;
    if (one.missing > 0) out["missing_bytes"] = one.missing;
    if (one.original_tokens) out["original_tokens"] = *one.original_tokens;
    out["waited_ns"] = one.waited.count();
    return out;
}

json::Object explanation(const SandboxSpec& spec, const policy::Holdings& have)
{
    const auto lines = policy::explain(policy::demands(spec.policy, accepted_tier(have)), have);
    // Limits of every preset are there for this machine: elsewhere they are only told as not held.
    std::vector<std::string> notes;
    const bool all = admit(spec, have, notes).has_value();
    json::Array rules;
    for (const auto& line : lines) {
        const bool told = std::ranges::any_of(notes, [&](const std::string& note) {
            return note.starts_with(fmt::format("not held: {} (", line.demand.why));
        });
        json::Object rule;
        rule["rule"] = line.demand.why;
        rule["feature"] = std::string_view(to_string(line.demand.feature));
        rule["tier"] = std::string_view(to_string(line.holding.tier));
        rule["how"] = line.holding.how;
        rule["held"] = line.met;
        rule["refused"] = !line.met && !told;
        rules.emplace_back(std::move(rule));
    }
    json::Object out;
    out["rules"] = std::move(rules);
    out["admitted"] = all;
    return out;
}

} // namespace berth::documents
