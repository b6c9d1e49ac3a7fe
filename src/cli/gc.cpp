#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct GcOptions {
    Common common;
    bool dry_run = false;
    bool orphans = false;
    std::optional<std::string> grace;
    std::optional<std::string> keep_last;
    std::optional<std::string> keep_within;
    std::optional<std::string> keep_bytes;
    std::optional<std::string> keep_records;
};

Result<GcWish> wish_of(const GcOptions& o)
{
    GcWish wish{.dry_run = o.dry_run, .orphans = o.orphans};
    if (o.grace) {
        BERTH_TRY(const auto time, parse_duration(*o.grace)); // zero: at once
        wish.grace = std::chrono::ceil<std::chrono::seconds>(time);
    }
    if (o.keep_last) {
        BERTH_TRY(const auto count, parse_int(*o.keep_last, 0, 1'000'000, "number of snapshots"));
        wish.keep_last = static_cast<std::size_t>(count);
    }
    if (o.keep_within) {
        BERTH_TRY(wish.keep_within, parse_seconds("--keep-within", *o.keep_within));
    }
    if (o.keep_bytes) {
        BERTH_TRY(wish.keep_bytes, parse_bytes(*o.keep_bytes));
    }
    if (o.keep_records) {
        BERTH_TRY(wish.keep_records, parse_seconds("--keep-records", *o.keep_records));
    }
    return wish;
}

Result<GcReport> collect(const GcOptions& o)
{
    BERTH_TRY(const auto wish, wish_of(o));
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Frees));
    return berth->run(berth->lifecycle().collect(wish));
}

std::string document(const GcReport& done, bool dry_run)
{
    json::Array actions;
    for (const auto& action : done.actions) {
        json::Object one;
        one["what"] = action.what;
        one["object"] = action.object;
        one["why"] = action.why;
        one["failed"] = action.failed.empty() ? json::Value(nullptr) : json::Value(action.failed);
        actions.emplace_back(std::move(one));
    }
    json::Object out;
    out["dry_run"] = dry_run;
    out["actions"] = std::move(actions);
    out["bytes"] = done.bytes;
    return json::dump(out) + "\n";
}

std::string table(const GcReport& done, bool dry_run)
{
    if (done.actions.empty()) return "nothing to collect\n";
    Table out({"ACTION", "OBJECT", "RESULT", "WHY"});
    for (const auto& action : done.actions)
        out.add({action.what, printable(action.object),
                 !action.failed.empty() ? "FAILED"
                 : dry_run              ? "would"
                                        : "done",
                 printable(action.failed.empty() ? action.why : action.why + ": " + action.failed, 600)});
    std::string text = out.text();
    if (done.bytes > 0)
        text += fmt::format("{} {}\n", brief(Bytes{done.bytes}), dry_run ? "would be freed" : "freed");
    return text;
}

} // namespace

int gc_verb(int argc, char** argv)
{
    CLI::App app("Finish what crashed, stop the idle, destroy the overdue, and remove what nobody owns: a\n"
                 "sandbox in use and what is not ours are left alone. Exits 1 when something failed.\n\n"
                 "Example:\n  berth gc --dry-run\n  berth gc --keep-last 3 --keep-within 30d\n",
                 "berth gc");
    GcOptions o;
    app.add_flag("--dry-run", o.dry_run, "Say what would be done, and do nothing");
    app.add_option("--grace", o.grace,
                   "How long superseded sandboxes, and files of snapshots that no record knows, are kept "
                   "(default 24h)")
        ->type_name("TIME");
    app.add_flag("--orphans", o.orphans,
                 "Remove instances that are older than the store and that no record knows, too");
    app.add_option("--keep-last", o.keep_last,
                   "Keep this many snapshots of each sandbox, and others that --keep-within keeps")
        ->type_name("N");
    app.add_option("--keep-within", o.keep_within,
                   "Keep snapshots that are younger, and the newest of each sandbox that is not gone")
        ->type_name("TIME");
    app.add_option("--keep-bytes", o.keep_bytes,
                   "Of those keep at most this much; the oldest go first, the newest of a sandbox never")
        ->type_name("SIZE");
    app.add_option("--keep-records", o.keep_records,
                   "How long records of sandboxes that are gone are kept, with their events (default 30d)")
        ->type_name("TIME");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto done = collect(o);
    if (!done) return report(done.error(), o.common);
    if (const int failed = print(o.common.json ? document(*done, o.dry_run) : table(*done, o.dry_run));
        failed != 0)
        return failed;
    const bool failed =
        std::ranges::any_of(done->actions, [](const auto& one) { return !one.failed.empty(); });
    return failed ? 1 : 0;
}

} // namespace berth::cli
