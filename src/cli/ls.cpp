#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "backend/registry.hpp"
#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct LsOptions {
    Common common;
    RecordQuery query;
    std::vector<std::string> labels; ///< NAME or NAME=VALUE, all of them
    std::vector<std::string> states; ///< any of them
    bool quiet = false;
    bool refresh = false;
};

Status check(const LsOptions& o)
{
    static const std::vector<std::string> known{"creating", "running",  "paused",   "stopped",  "lost",
                                                "failed",   "attached", "detached", "destroyed"};
    for (const auto& state : o.states) {
        if (std::ranges::find(known, state) != known.end()) continue;
        return fail(Code::Invalid, "no state '{}': {}", printable(state, 40), fmt::join(known, ", "));
    }
    return o.query.backend.empty() ? Status{} : backends().check(o.query.backend);
}

bool fits(const LsOptions& o, const SandboxRecord& record)
{
    if (!o.states.empty() && std::ranges::find(o.states, to_string(record.state)) == o.states.end())
        return false;
    return std::ranges::all_of(o.labels, [&](const std::string& wanted) {
        const auto at = wanted.find('=');
        const auto found = record.spec.labels.find(wanted.substr(0, at));
        if (found == record.spec.labels.end()) return false;
        return at == std::string::npos || found->second == wanted.substr(at + 1);
    });
}

Result<std::vector<SandboxRecord>> records(const LsOptions& o)
{
    BERTH_CHECK(check(o));
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Reads));
    std::vector<SandboxRecord> out;
    RecordQuery query = o.query;
    for (;;) {
        BERTH_TRY(auto page, berth->store().list(query));
        const bool last = page.size() < query.limit;
        if (!last) query.after = page.back().id();
        for (auto& record : page) out.push_back(std::move(record));
        if (last) break;
    }
    if (!o.refresh) {
        std::erase_if(out, [&](const auto& record) { return !fits(o, record); });
        return out;
    }
    for (auto& record : out) {
        // A backend that cannot be asked leaves what was last known, and says so.
        auto seen = berth->run(berth->lifecycle().refresh(record.id()));
        if (seen)
            record = *std::move(seen);
        else
            say(seen.error().line());
    }
    std::erase_if(out, [&](const auto& record) { return !fits(o, record); });
    return out;
}

std::string state_of(const SandboxRecord& record)
{
    if (!record.damage.empty()) return "damaged";
    if (!record.superseded_by.empty() && record.state != State::Destroyed)
        return fmt::format("{},superseded", to_string(record.state));
    return std::string(to_string(record.state));
}

std::string table(const std::vector<SandboxRecord>& all)
{
    const auto now = system_clock().now();
    Table out({"ID", "NAME", "KEY", "STATE", "BACKEND", "AGE", "LAST-USED"});
    for (const auto& record : all)
        out.add({record.id(), cell(record.spec.name), cell(record.key), state_of(record), record.backend,
                 brief(now - record.created), brief(now - record.last_used)});
    return out.text();
}

std::string show(const LsOptions& o, const std::vector<SandboxRecord>& all)
{
    if (o.common.json) {
        json::Array list;
        for (const auto& record : all) list.emplace_back(record_json(record));
        json::Object document;
        document["sandboxes"] = std::move(list);
        return json::dump(document) + "\n";
    }
    if (!o.quiet) return table(all);
    std::string ids;
    for (const auto& record : all) ids += record.id() + "\n";
    return ids;
}

} // namespace

int ls_verb(int argc, char** argv)
{
    CLI::App app("List sandboxes, the oldest first, as the store knows them.\n\n"
                 "Example:\n  berth ls\n  berth ls --state running --label team=blue\n  berth ls --all "
                 "--json\n  berth rm $(berth ls -q)\n",
                 "berth ls");
    LsOptions o;
    app.add_flag("-a,--all", o.query.with_dead, "Destroyed, failed and superseded ones, too");
    app.add_option("--backend", o.query.backend, "Only those of a backend")->type_name("NAME");
    app.add_option("--name", o.query.name, "Only those of a name")->type_name("NAME");
    app.add_option("--label", o.labels, "Only those with a label; may be repeated")
        ->type_name("NAME[=VALUE]")
        ->allow_extra_args(false);
    app.add_option("--state", o.states, "Only those in a state, like running; may be repeated")
        ->type_name("STATE")
        ->allow_extra_args(false);
    app.add_flag("-q,--quiet", o.quiet, "Only ids");
    app.add_flag("--refresh", o.refresh, "Ask the backend about each one first");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto all = records(o);
    if (!all) return report(all.error(), o.common);
    return print(show(o, *all));
}

} // namespace berth::cli
