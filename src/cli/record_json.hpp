#pragma once

#include "base/json.hpp"
#include "core/store.hpp"
#include "lifecycle/answers.hpp"

/// What the store knows, as the documents of --json: every verb shows the same thing by the same names. A
/// field that has no value is null, never left out; times are RFC 3339.
namespace berth::cli {

/// Without the spec, which `inspect` shows.
[[nodiscard]] json::Object record_json(const SandboxRecord& record);
/// The record, and how it was come by: "outcome", "snapshot", "lost_seconds", "unsynced_since", "notes".
[[nodiscard]] json::Object acquired_json(const Acquired& acquired);
[[nodiscard]] json::Object snapshot_json(const SnapshotRecord& snapshot);
[[nodiscard]] json::Object exec_json(const ExecRecord& exec);
[[nodiscard]] json::Object ledger_json(const LedgerEvent& event);

/// Of a snapshot, for people; "-" while nobody has counted.
[[nodiscard]] std::string size_text(const SnapshotRecord& snapshot);

/// Null for none.
[[nodiscard]] json::Value text_or_null(const std::string& text);
[[nodiscard]] json::Value time_or_null(WallTime time);
[[nodiscard]] json::Array text_array(const std::vector<std::string>& all);

} // namespace berth::cli
