#include <algorithm>

#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/exec_server_url.hpp"
#include "cli/local_build.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "core/admit.hpp"
#include "lifecycle/key.hpp"
#include "lifecycle/payload.hpp"
#include "lifecycle/taken.hpp"

namespace berth::cli {

namespace {

struct RestoreOptions {
    std::string url;
    Common common;
    std::string snapshot;
    RestoreWish wish;
    std::optional<std::string> root;
    bool quiet = false;
    bool dry_run = false;
};

/// As restore() would refuse it.
Status check_restorable(Berth& berth, const SnapshotRecord& snapshot, const RestoreWish& wish,
                        const std::string& backend)
{
    BERTH_TRY(auto* const where, berth.backend(backend));
    const auto have = where->capabilities();
    const auto kinds = restored_by(have);
    if (std::ranges::find(kinds, snapshot.kind) == kinds.end())
        return fail(Code::Unsupported, "snapshot {} is a {}: backend {} restores {}", snapshot.id,
                    snapshot.kind, backend,
                    kinds.empty() ? "none" : fmt::format("{}", fmt::join(kinds, ", ")));
    BERTH_CHECK(payload::check(berth.lifecycle().snapshot_directory(), snapshot));
    if (backend == snapshot.backend) return {};
    SandboxSpec spec = snapshot.spec;
    if (wish.root) spec.root = *wish.root;
    std::vector<std::string> unheld;
    return admit(spec, have.holds, unheld);
}

Result<int> pretend(Berth& berth, const RestoreOptions& o)
{
    BERTH_TRY(const auto snapshot, berth.run(berth.lifecycle().find_snapshot(o.snapshot)));
    BERTH_TRY(const auto old, berth.store().find(snapshot.sandbox));
    const bool in_place = old && old->live() && !o.wish.as_new && o.wish.name.empty() && o.wish.key.empty() &&
                          o.wish.backend.empty();
    const std::string on = in_place                 ? old->backend
                           : o.wish.backend.empty() ? snapshot.backend
                                                    : o.wish.backend;
    if (in_place && old->state == State::Attached)
        return fail(Code::Denied, "sandbox {} is borrowed and cannot be replaced", old->id());
    BERTH_CHECK(taken::check_new_name(berth.store(), o.wish.name));
    BERTH_CHECK(taken::check_new_key(berth.store(), o.wish.key));
    BERTH_CHECK(check_restorable(berth, snapshot, o.wish, on));
    if (!o.common.json) {
        say(in_place ? fmt::format("would replace the files of {} ({}) by those of {} and end its processes",
                                   old->id(), to_string(old->state), snapshot.id)
                     : fmt::format("would make a new sandbox on {} from {}", on, snapshot.id));
        return 0;
    }
    json::Object document;
    document["dry_run"] = true;
    document["snapshot"] = snapshot.id;
    document["backend"] = on;
    document["replaces"] = in_place ? json::Value(old->id()) : json::Value(nullptr);
    return print_document(document);
}

Result<int> restore(RestoreOptions& o, const CLI::App& app)
{
    if (app.get_option("--name")->count() > 0) BERTH_CHECK(check_sandbox_name(o.wish.name));
    if (app.get_option("--key")->count() > 0) BERTH_CHECK(check_key(o.wish.key));
    if (app.get_option("--backend")->count() > 0 && o.wish.backend.empty())
        return fail(Code::Invalid, "--backend needs the name of a backend: berth doctor lists them");
    BERTH_CHECK(use_url(o.url, o.wish.backend));
    if (o.root) {
        BERTH_TRY(o.wish.root, parse_template(*o.root));
    }
    BERTH_TRY(const auto berth, open_berth(o.common));
    BERTH_TRY(const auto built, find_template(berth->store(), o.snapshot));
    if (built) {
        o.snapshot = built->id;
        o.wish.as_new = true;
    }
    if (o.dry_run) return pretend(*berth, o);
    BERTH_TRY(const auto acquired, berth->run(berth->lifecycle().restore(o.snapshot, o.wish)));
    if (o.common.json) return print_document(acquired_json(acquired));
    if (!o.quiet) say_outcome(acquired);
    return print(acquired.record.id() + "\n");
}

} // namespace

int restore_verb(int argc, char** argv)
{
    CLI::App app(
        "Bring a snapshot back. Its sandbox becomes what it was then, and what it did since is lost; where\n"
        "that one is gone, or with --new, --name, --key or --backend, a new sandbox is made from it.\n\n"
        "Example:\n  berth restore snap_01jd7f3\n  berth restore snap_01jd7f3 --name second-try\n"
        "  berth restore snap_01jd7f3 --backend docker --template image:debian:12\n",
        "berth restore");
    RestoreOptions o;
    app.add_option("snapshot", o.snapshot, "An id, or a prefix of one; or a template that was built here")
        ->type_name("SNAP")
        ->required();
    app.add_flag("--new", o.wish.as_new, "A new sandbox, also while the old one lives");
    app.add_option("--name", o.wish.name, "Of the new sandbox")->type_name("NAME");
    app.add_option("--key", o.wish.key, "Of the new sandbox")->type_name("KEY");
    app.add_option("--backend", o.wish.backend,
                   "Where the new sandbox is made (default: where the snapshot was); the backend must\n"
                   "know its kind, as all do that have archives with berth_workspace_tar")
        ->type_name("NAME");
    add_url_option(app, o.url);
    app.add_option("--template", o.root, "What it stands on there, where only its work comes along")
        ->type_name("TEMPLATE")
        ->needs("--backend");
    app.add_flag("-q,--quiet", o.quiet, "Print the id and nothing else");
    app.add_flag("--dry-run", o.dry_run, "Say what would be replaced, and replace nothing");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = restore(o, app);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli
