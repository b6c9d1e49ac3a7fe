#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

/// Everything that still has an instance of ours; what is only borrowed is nobody's to remove.
Result<std::vector<std::string>> all_of(Store& store)
{
    constexpr std::size_t kPage = 1000;
    std::vector<std::string> out;
    RecordQuery query{.with_dead = true, .limit = kPage};
    for (;;) {
        BERTH_TRY(const auto page, store.list(query));
        for (const auto& record : page)
            if (record.state != State::Destroyed && record.state != State::Detached &&
                record.state != State::Attached)
                out.push_back(record.id());
        if (page.size() < kPage) return out;
        query.after = page.back().id();
    }
}

std::string describe(const SandboxRecord& record, std::size_t running)
{
    std::string what(to_string(record.state));
    if (!record.spec.name.empty()) what = printable(record.spec.name, 60) + ", " + what;
    if (!record.key.empty()) what = "key " + printable(record.key, 60) + ", " + what;
    if (running > 0) what += fmt::format(", {} {} in it", running, running == 1 ? "exec runs" : "execs run");
    return what;
}

Result<json::Object> pretend(Berth& berth, const Common& common, const std::string& ref)
{
    BERTH_TRY(const auto record, berth.run(berth.lifecycle().find(ref)));
    if (record.state == State::Attached)
        return fail(Code::Denied, "sandbox {} is borrowed: it cannot be destroyed, only detached",
                    record.id());
    BERTH_TRY(const auto execs, berth.store().execs(record.id(), true));
    if (!common.json) say(fmt::format("would remove {} ({})", record.id(), describe(record, execs.size())));
    auto out = record_json(record);
    out["dry_run"] = true;
    out["running_execs"] = execs.size();
    return out;
}

} // namespace

int rm_verb(int argc, char** argv)
{
    CLI::App app("Destroy sandboxes: their processes are killed and their files are gone. Snapshots and\n"
                 "volumes stay. One that is destroyed already is fine.\n\n"
                 "Example:\n  berth rm demo\n  berth rm --all --dry-run\n",
                 "berth rm");
    Common common;
    std::vector<std::string> refs;
    bool all = false;
    bool dry = false;
    app.add_option("sandbox", refs, "Ids, prefixes of ids, names or keys")->type_name("REF...");
    app.add_flag("--all", all, "Every sandbox of this state directory");
    app.add_flag("--dry-run", dry, "Say what would be removed, and remove nothing");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    if (refs.empty() != all)
        return report(Error{.code = Code::Invalid,
                            .message = all ? "--all and names exclude each other"
                                           : "which sandbox? berth ls lists them, --all means every one"},
                      common);
    const auto berth = open_berth(common, Room::Frees);
    if (!berth) return report(berth.error(), common);
    if (all) {
        auto every = all_of((*berth)->store());
        if (!every) return report(every.error(), common);
        refs = *std::move(every);
    }
    return for_each_ref(common, refs, [&](const std::string& ref) -> Result<json::Object> {
        if (dry) return pretend(**berth, common, ref);
        BERTH_TRY(const auto record, (*berth)->run((*berth)->lifecycle().destroy(ref)));
        return record_json(record);
    });
}

} // namespace berth::cli
