// Names of the templates that were built here. A template is a snapshot, and its note is its name: one that a
// server built has another note, and is its tenant's.

#include <algorithm>
#include <set>

#include "base/strings.hpp"
#include "cli/local_build.hpp"
#include "lifecycle/template_note.hpp"

namespace berth::cli {

std::string template_note(std::string_view name) { return fmt::format("{}here {}", kTemplateNote, name); }

std::optional<std::string> template_name(const SnapshotRecord& snapshot)
{
    const std::string begin = template_note({});
    if (!snapshot.note.starts_with(begin)) return std::nullopt;
    return snapshot.note.substr(begin.size());
}

Result<std::vector<SnapshotRecord>> list_templates(Store& store)
{
    BERTH_TRY(auto all, store.snapshots({}));
    std::vector<SnapshotRecord> out;
    std::set<std::string> seen;
    for (auto& one : all)
        if (const auto name = template_name(one); name && seen.insert(*name).second)
            out.push_back(std::move(one));
    return out;
}

Result<std::optional<SnapshotRecord>> find_template(Store& store, const std::string& name)
{
    BERTH_TRY(auto all, list_templates(store));
    for (auto& one : all)
        if (template_name(one) == name) return std::optional(std::move(one));
    return std::optional<SnapshotRecord>{};
}

Status check_template_name(std::string_view name)
{
    const bool good = !name.empty() && name.size() <= 100 && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '_' || c == '-';
    });
    if (!good || name == "base" || name == "host" || name == "live" || name.starts_with("snap_"))
        return fail(
            Code::Invalid,
            "'{}' is no name for a template here: letters, digits, '.', '_' and '-', and neither base, "
            "host, live nor snap_…",
            printable(name, 80));
    return {};
}

} // namespace berth::cli
