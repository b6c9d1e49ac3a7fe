#include <CLI/CLI.hpp>

#include "cli/asked_root.hpp"
#include "cli/progress.hpp"
#include "cli/record_json.hpp"
#include "cli/sandbox_options.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/key.hpp"
#include "lifecycle/proving.hpp"

namespace berth::cli {

namespace {

struct CreateOptions {
    Common common;
    SandboxOptions sandbox;
    std::vector<std::string> volumes;
    std::string key;
    std::string idle;
    std::string on_idle;
    std::string lifetime;
    std::string on_loss = "restore";
    bool quiet = false;
    bool prove = false;
};

void add_options(CLI::App& app, CreateOptions& o)
{
    add_sandbox_options(app, o.sandbox);
    app.add_option("--volume", o.volumes, "A directory that outlives the sandbox: NAME:TARGET[:ro|:rw]")
        ->type_name("NAME:TARGET")
        ->allow_extra_args(false);
    const char* group = "How it is found and kept";
    app.add_option("--key", o.key, "Find the sandbox of this key, or make it")
        ->type_name("KEY")
        ->group(group);
    app.add_option(
           "--idle", o.idle,
           "Unused for this time it is idle: no exec, copy, port (default: never, which also takes an "
           "earlier word back)")
        ->type_name("TIME")
        ->group(group);
    app.add_option("--on-idle", o.on_idle, "Then: stop (default), snapshot_then_stop or destroy")
        ->type_name("ACTION")
        ->group(group);
    app.add_option("--lifetime", o.lifetime,
                   "Destroy it this long after its creation (default: never, as above)")
        ->type_name("TIME")
        ->group(group);
    app.add_option("--on-loss", o.on_loss,
                   "When its instance is gone: restore (default) the newest snapshot, error, or fresh")
        ->type_name("ACTION")
        ->group(group);
    app.add_flag("--prove", o.prove,
                 "Hand it out only when its policy holds, tried from inside: see berth policy prove");
    app.add_flag("-q,--quiet", o.quiet, "Print the id and nothing else");
    add_common(app, o.common);
}

Result<AcquireRequest> request_of(const CreateOptions& o, const CLI::App& app)
{
    const auto given = [&](const char* name) { return app.get_option(name)->count() > 0; };
    if (given("--name")) BERTH_CHECK(check_sandbox_name(o.sandbox.name));
    AcquireRequest request;
    if (given("--key")) BERTH_CHECK(check_key(o.key));
    request.key = o.key;
    request.backend = o.sandbox.backend;
    BERTH_TRY(request.spec, asked_spec(o.common, o.sandbox));
    for (const auto& text : o.volumes) {
        BERTH_TRY(auto volume, parse_volume(text));
        request.spec.volumes.push_back(std::move(volume));
    }
    if (given("--idle")) {
        BERTH_TRY(request.retention.idle, parse_seconds_or_never("--idle", o.idle));
        request.never_idle = !request.retention.idle;
    }
    if (given("--on-idle")) {
        if (!request.retention.idle) return fail(Code::Invalid, "--on-idle needs --idle: how long is idle?");
        BERTH_TRY(request.retention.on_idle, parse_on_idle(o.on_idle));
    }
    if (given("--lifetime")) {
        BERTH_TRY(request.retention.lifetime, parse_seconds_or_never("--lifetime", o.lifetime));
        request.never_old = !request.retention.lifetime;
    }
    BERTH_TRY(request.on_loss, parse_on_state_loss(o.on_loss));
    return request;
}

Result<Acquired> create(const CreateOptions& o, const CLI::App& app)
{
    BERTH_TRY(auto request, request_of(o, app));
    BERTH_TRY(const auto berth, open_berth(o.common));
    Progress progress;
    request.progress = [&](const std::string& what, std::uint64_t have, std::uint64_t of) {
        progress.tell(what, have, of);
    };
    if (!o.prove) return berth->run(berth->lifecycle().acquire(request));
    BlockingPool pool(1);
    Proving proving(berth->lifecycle(), pool, berth->data());
    return berth->run(proving.acquire(request));
}

} // namespace

int create_verb(int argc, char** argv)
{
    CLI::App app("Make a sandbox that is kept, or find the one that is there: by its key, else by its name.\n"
                 "Prints its id; stderr says whether it was attached, started, restored or is fresh.\n\n"
                 "Example:\n"
                 "  berth create --key demo --workspace . --idle 30m\n"
                 "  berth exec demo -- make test\n",
                 "berth create");
    CreateOptions options;
    add_options(app, options);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, options.common, argc, argv)) return *done;
    const auto acquired = create(options, app);
    if (!acquired) return report(acquired.error(), options.common);
    if (options.common.json) return print_document(acquired_json(*acquired));
    if (!options.quiet) say_outcome(*acquired);
    return print(acquired->record.id() + "\n");
}

} // namespace berth::cli
