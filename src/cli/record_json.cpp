#include "cli/record_json.hpp"

#include "base/brief.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

json::Value text_or_null(const std::string& text) { return documents::text_or_null(text); }
json::Value time_or_null(WallTime time) { return documents::time_or_null(time); }
json::Array text_array(const std::vector<std::string>& all) { return documents::text_array(all); }
json::Object record_json(const SandboxRecord& record) { return documents::record(record); }
json::Object acquired_json(const Acquired& acquired) { return documents::acquired(acquired); }
json::Object snapshot_json(const SnapshotRecord& snapshot) { return documents::snapshot(snapshot); }
json::Object exec_json(const ExecRecord& exec) { return documents::exec(exec); }
json::Object ledger_json(const LedgerEvent& event) { return documents::ledger(event); }

std::string size_text(const SnapshotRecord& snapshot)
{
    return snapshot.bytes == 0 ? "-" : brief(Bytes{snapshot.bytes});
}

} // namespace berth::cli
