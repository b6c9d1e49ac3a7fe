#pragma once

#include "base/json.hpp"
#include "core/exec_event.hpp"
#include "core/store.hpp"
#include "lifecycle/answers.hpp"
#include "lifecycle/yield.hpp"
#include "policy/demand.hpp"

/// What is known, as JSON: --json and the server's API show the same thing by the same names. A field that
/// has no value is null, never left out; times are RFC 3339.
namespace berth::documents {

/// Without the spec.
[[nodiscard]] json::Object record(const SandboxRecord& one);
/// How a sandbox was come by: "outcome", "snapshot", "lost_seconds", "unsynced_since", "notes".
[[nodiscard]] json::Object outcome(const Acquired& one);
/// The record, and the outcome.
[[nodiscard]] json::Object acquired(const Acquired& one);
[[nodiscard]] json::Object snapshot(const SnapshotRecord& one);
[[nodiscard]] json::Object exec(const ExecRecord& one);
[[nodiscard]] json::Object ledger(const LedgerEvent& event);
/// Bytes are base64, as they are; `timed_out` is of an exit.
[[nodiscard]] json::Object event(const ExecEvent& one, bool timed_out);
/// One turn of a command that is waited for a while: "running", "output", "next_seq".
[[nodiscard]] json::Object yielded(const std::string& sandbox, const Yielded& one);

/// Rule by rule: at which tier a policy is held where `have` is true, and by what; "admitted": all of it is.
[[nodiscard]] json::Object explanation(const SandboxSpec& spec, const policy::Holdings& have);

/// Null for none.
[[nodiscard]] json::Value text_or_null(const std::string& text);
[[nodiscard]] json::Value time_or_null(WallTime time);
[[nodiscard]] json::Array text_array(const std::vector<std::string>& all);

} // namespace berth::documents
