// Taking snapshots, listing and removing them.

#include <set>

#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/progress.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/supervised.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/template_note.hpp"

namespace berth::cli {

namespace {

Result<SnapshotAnswer> take(const Common& common, const std::string& ref, SnapshotWish wish)
{
    BERTH_TRY(const auto berth, open_berth(common));
    Progress progress;
    wish.progress = [&](std::uint64_t bytes) { progress.add(bytes); };
    return berth->run(berth->lifecycle().snapshot(ref, wish));
}

void say_taken(const SnapshotAnswer& answer)
{
    const auto& made = answer.record;
    const std::string size = made.bytes == 0 ? std::string{} : fmt::format(", {}", size_text(made));
    say(fmt::format("snapshot of {}: {}{} in {}{}", made.sandbox, printable(made.kind), size,
                    brief(answer.elapsed), made.live_copy ? ", copied while its processes live" : ""));
    for (const auto& note : answer.notes) say(printable(note, 600));
}

int take_and_tell(const Common& common, const std::string& ref, const SnapshotWish& wish, bool quiet)
{
    const auto taken = take(common, ref, wish);
    if (!taken) return report(taken.error(), common);
    if (common.json) {
        auto document = snapshot_json(taken->record);
        document["elapsed_seconds"] = std::chrono::duration<double>(taken->elapsed).count();
        document["notes"] = text_array(taken->notes);
        return print_document(document);
    }
    if (!quiet) say_taken(*taken);
    return print(taken->record.id + "\n");
}

Result<std::vector<SnapshotRecord>> listed(const Common& common, const std::optional<std::string>& ref)
{
    BERTH_TRY(const auto berth, open_berth(common, Room::Reads));
    std::string sandbox;
    if (ref) {
        BERTH_TRY(const auto record, berth->run(berth->lifecycle().find(*ref)));
        sandbox = record.id();
    }
    BERTH_TRY(auto all, berth->run(berth->lifecycle().snapshots(sandbox)));
    std::erase_if(all, [](const auto& one) { return one.internal; });
    return all;
}

int list(const Common& common, const std::optional<std::string>& ref, bool quiet)
{
    const auto all = listed(common, ref);
    if (!all) return report(all.error(), common);
    if (common.json) {
        json::Array list;
        for (const auto& one : *all) list.emplace_back(snapshot_json(one));
        json::Object document;
        document["snapshots"] = std::move(list);
        return print_document(document);
    }
    if (quiet) {
        std::string ids;
        for (const auto& one : *all) ids += one.id + "\n";
        return print(ids);
    }
    const auto now = system_clock().now();
    Table table({"ID", "SANDBOX", "KIND", "SIZE", "AGE", "NOTE"});
    for (const auto& one : *all)
        table.add({one.id, one.sandbox, printable(one.kind), size_text(one), brief(now - one.created),
                   cell(one.note)});
    return print(table.text());
}

/// What only the removed ones used.
void free_unused(Berth& berth, const Common& common, const std::string& backend)
{
    const auto freed = berth.run(berth.lifecycle().collect_unused(backend));
    if (!freed)
        say("the room they took is freed by berth gc: " + freed.error().line());
    else if (!common.json && freed->bytes > 0)
        say(brief(Bytes{freed->bytes}) + " freed");
}

int remove(const Common& common, const std::vector<std::string>& refs, bool dry)
{
    const auto berth = open_berth(common, Room::Frees);
    if (!berth) return report(berth.error(), common);
    std::set<std::string> backends;
    const int code = for_each_ref(
        common, refs,
        [&](const std::string& ref) -> Result<json::Object> {
            BERTH_TRY(const auto snapshot, (*berth)->run((*berth)->lifecycle().find_snapshot(ref)));
            auto told = snapshot_json(snapshot);
            if (dry) {
                told["dry_run"] = true;
                if (!common.json)
                    say(fmt::format("would remove {} of {} ({})", snapshot.id, snapshot.sandbox,
                                    size_text(snapshot)));
                return told;
            }
            BERTH_CHECK((*berth)->run((*berth)->lifecycle().remove_snapshot(snapshot.id)));
            backends.insert(snapshot.backend);
            return told;
        },
        "snapshots");
    for (const auto& name : backends) free_unused(**berth, common, name);
    return code;
}

} // namespace

int snapshot_verb(int argc, char** argv)
{
    CLI::App app(
        "Keep the files of a sandbox as they are now. Memory and processes are not part of it. Prints the\n"
        "snapshot's id; berth restore and berth create by key make sandboxes from it.\n\n"
        "Example:\n  berth snapshot demo --note 'before the upgrade'\n",
        "berth snapshot");
    Common common;
    std::string ref;
    SnapshotWish wish;
    bool quiet = false;
    app.add_option("sandbox", ref, "An id, a prefix of one, a name or a key")->type_name("REF")->required();
    app.add_option("--kind", wish.kind,
                   "berth_layer, berth_rootfs_tar, berth_workspace_tar or another that the\n"
                   "backend makes (default: its best)")
        ->type_name("KIND");
    app.add_option("--note", wish.note, "A word for later")->type_name("TEXT");
    app.add_flag("-q,--quiet", quiet, "Print the id and nothing else");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    if (const auto good = check_note(wish.note); !good) return report(good.error(), common);
    const auto work = [&] { return take_and_tell(common, ref, wish, quiet); };
    return supervised(work, [&] { clear_up(common, ref); });
}

int snapshots_verb(int argc, char** argv)
{
    CLI::App app("List snapshots, the newest first, of one sandbox or of all; or remove some.\n\n"
                 "Example:\n  berth snapshots demo\n  berth snapshots rm snap_01jd7f3\n",
                 "berth snapshots");
    Common common;
    std::optional<std::string> ref;
    std::vector<std::string> refs;
    bool quiet = false;
    bool dry = false;
    app.add_option("sandbox", ref, "Only of this one: an id, a prefix of one, a name or a key")
        ->type_name("REF");
    app.add_flag("-q,--quiet", quiet, "Only ids");
    add_common(app, common);
    auto* rm = app.add_subcommand("rm", "Remove snapshots; sandboxes made from them stay");
    rm->add_option("snapshot", refs, "Ids, or prefixes of ids")->type_name("SNAP...")->required();
    rm->add_flag("--dry-run", dry, "Say what would be removed, and remove nothing");
    add_common(*rm, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    return *rm ? remove(common, refs, dry) : list(common, ref, quiet);
}

} // namespace berth::cli
