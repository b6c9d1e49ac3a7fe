#include <unistd.h>

#include "backend/local/parked.hpp"
#include "bench/bench.hpp"
#include "bench/kept.hpp"
#include "bench/measure.hpp"
#include "bench/peers.hpp"

namespace berth::bench {

namespace {

using local::Pools;
using local::Sandbox;

constexpr const char* kCreate = "create until the keeper answers";
constexpr const char* kCreateDisk = "the same, on disk";
constexpr const char* kCreateSpawner = "the same, by the spawner";
constexpr const char* kCreatePausable = "the same, pausable";
constexpr const char* kDestroy = "destroy";
constexpr const char* kExec = "exec";
constexpr const char* kFresh = "exec, log files not made ahead";
constexpr const char* kPausable = "exec, pausable";
constexpr const char* kGroups = "exec in groups";
constexpr const char* kNarrower = "exec, narrower policy";
constexpr const char* kNarrowerHere = "the same, without the spawner";
constexpr const char* kClaim = "claim of a parked one, and exec";

/// The sandboxes that stay while execs are timed.
struct Stage {
    std::unique_ptr<sys::Spawner> spawner; ///< as a server has one: what it forks is as large as it
    Kept plain;                            ///< in no group
    Kept pausable;                         ///< in a group of the freezer's alone
    Kept limited;                          ///< empty where control groups hold no limits
};

Result<Stage> set_stage(Context& context, Table& table)
{
    Stage stage;
    BERTH_TRY(auto spawner, sys::Spawner::start());
    stage.spawner = std::make_unique<sys::Spawner>(std::move(spawner));
    BERTH_TRY(stage.plain,
              make_kept(context, context.spec(), {.spawner = stage.spawner.get(), .groups = false}));
    BERTH_TRY(stage.pausable, make_kept(context, context.spec(), {}));
    auto spec = context.spec();
    spec.policy.limits = {.memory = 1_GiB, .cpus = 1.0, .pids = 4096};
    auto limited = make_kept(context, spec, {});
    if (limited)
        stage.limited = *std::move(limited);
    else if (limited.error().code == Code::Unsupported)
        table.skipped.push_back(
            {.name = kGroups, .reason = limited.error().line(), .remedy = "berth doctor"});
    else
        return std::unexpected(std::move(limited).error());
    return stage;
}

enum class Logs { Ahead, OnTheSpot };

Case exec_case(Context& context, const char* name, Sandbox& sandbox, Logs logs, bool narrow)
{
    auto run = [&context, &sandbox, logs, narrow]() -> Result<double> {
        auto exec = exec_of({kTrue});
        if (narrow) exec.policy = narrower(sandbox.spec());
        if (logs == Logs::Ahead) BERTH_CHECK(sandbox.make_ahead(1));
        const Stopwatch watch;
        BERTH_CHECK(exec_and_wait(sandbox, exec));
        const double taken = watch.nanoseconds();
        discard(context, sandbox, exec.id);
        return taken;
    };
    return {.name = name, .run = std::move(run)};
}

Case create_case(Context& context, const char* name, Sandbox::Storage storage,
                 std::shared_ptr<sys::Spawner> spawner = {}, bool groups = false)
{
    const auto pools = std::make_shared<Pools>(context.state(), Pools::Sizes{.identities = 1, .networks = 0});
    auto run = [&context, pools, storage, spawner, groups]() -> Result<double> {
        BERTH_CHECK(pools->refill());
        const auto spec = context.spec();
        const Stopwatch watch;
        BERTH_TRY(
            const auto kept,
            make_kept(
                context, spec,
                {.storage = storage, .pools = pools.get(), .spawner = spawner.get(), .groups = groups}));
        return watch.nanoseconds();
    };
    return {.name = name, .run = std::move(run)};
}

/// What was made ahead is given its name, environment and record; then its first command runs.
Case claim_case(Context& context)
{
    auto run = [&context]() -> Result<double> {
        auto spec = context.spec();
        BERTH_TRY(auto parked, local::Parked::make(context.state(), spec, {.groups = false}));
        spec.name = "claimed";
        spec.env["CLAIMED"] = "yes";
        const auto exec = exec_of({kTrue});
        const Stopwatch watch;
        BERTH_TRY(auto sandbox, std::move(parked).claim(spec, {.groups = false}));
        const auto ran = exec_and_wait(sandbox, exec);
        const double taken = watch.nanoseconds();
        BERTH_CHECK(sandbox.destroy());
        if (!ran) return std::unexpected(ran.error());
        return taken;
    };
    return {.name = kClaim, .run = std::move(run)};
}

Case destroy_case(Context& context)
{
    const auto pools = std::make_shared<Pools>(context.state(), Pools::Sizes{.identities = 1, .networks = 0});
    auto run = [&context, pools]() -> Result<double> {
        BERTH_CHECK(pools->refill());
        BERTH_TRY(auto kept,
                  make_kept(context, context.spec(),
                            {.storage = Sandbox::Storage::Memory, .pools = pools.get(), .groups = false}));
        const Stopwatch watch;
        kept.reset();
        return watch.nanoseconds();
    };
    return {.name = kDestroy, .run = std::move(run)};
}

Result<Table> create(Context& context)
{
    Table table{.name = "create"};
    std::vector<Case> cases;
    BERTH_TRY(auto ra, reference(kRA));
    cases.push_back(std::move(ra));
    cases.push_back(create_case(context, kCreate, Sandbox::Storage::Memory));
    cases.push_back(create_case(context, kCreateDisk, Sandbox::Storage::Disk));
    cases.push_back(create_case(context, kCreatePausable, Sandbox::Storage::Memory, {}, true));
    BERTH_TRY(auto spawner, sys::Spawner::start());
    cases.push_back(create_case(context, kCreateSpawner, Sandbox::Storage::Memory,
                                std::make_shared<sys::Spawner>(std::move(spawner))));
    cases.push_back(destroy_case(context));
    const std::string against(kRA);
    table.claims = {{.subject = kCreate, .reference = against, .bar = Bar{.limit = 1.45, .stretch = 1.1}},
                    {.subject = kCreateDisk, .reference = against},
                    {.subject = kCreatePausable, .reference = against},
                    {.subject = kCreateSpawner, .reference = against},
                    {.subject = kDestroy, .reference = against}};
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});
    return table;
}

Result<Table> closed_loop(Context& context)
{
    Table table{.name = "warm"};
    BERTH_TRY(auto stage, set_stage(context, table));
    std::vector<Case> cases;
    BERTH_TRY(auto r0, reference(kR0));
    cases.push_back(std::move(r0));
    cases.push_back(exec_case(context, kExec, *stage.plain, Logs::Ahead, false));
    cases.push_back(exec_case(context, kFresh, *stage.plain, Logs::OnTheSpot, false));
    cases.push_back(exec_case(context, kPausable, *stage.pausable, Logs::Ahead, false));
    if (stage.limited) cases.push_back(exec_case(context, kGroups, *stage.limited, Logs::Ahead, false));
    Case narrow = exec_case(context, kNarrower, *stage.plain, Logs::Ahead, true);
    const auto tried = narrow.run();
    const bool can_narrow = tried || tried.error().code != Code::Unsupported;
    if (!can_narrow)
        table.skipped.push_back(
            {.name = kNarrower, .reason = tried.error().line(), .remedy = "berth doctor"});
    else {
        cases.push_back(std::move(narrow));
        cases.push_back(exec_case(context, kNarrowerHere, *stage.pausable, Logs::Ahead, true));
    }

    cases.push_back(claim_case(context));

    std::vector<std::unique_ptr<OciPeer>> runtimes;
    if (context.options().peers) {
        for (const std::string name : {"crun", "runc"}) add_runtime(context, table, name, runtimes);
        for (const auto& runtime : runtimes) {
            BERTH_TRY(auto one, runtime->exec_case());
            cases.push_back(std::move(one));
        }
    }
    const std::string against(kR0);
    const auto lead = Relation::Lead;
    table.claims = {{.subject = kExec, .reference = against, .bar = Bar{.limit = 1.4, .stretch = 1.15}},
                    {.subject = kFresh, .reference = against},
                    {.subject = kPausable, .reference = against},
                    {.subject = kGroups, .reference = against, .bar = Bar{.limit = 1.55, .stretch = 1.25}},
                    {.subject = kNarrower, .reference = against, .bar = Bar{.limit = 2.2, .stretch = 1.6}},
                    {.subject = kNarrowerHere, .reference = against},
                    {.subject = kClaim, .reference = against, .bar = Bar{.limit = 2, .stretch = 1.3}},
                    {.subject = kExec, .reference = "crun exec", .relation = lead, .bar = Bar{.limit = 5}},
                    {.subject = kExec, .reference = "runc exec", .relation = lead, .bar = Bar{.limit = 10}}};
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});

    for (const auto* kept : {&stage.plain, &stage.limited})
        if (*kept)
            if (const auto right = check_kept(context, **kept); !right)
                table.problems.push_back(right.error().line());
    if (can_narrow)
        if (const auto right = check_narrower(context, *stage.plain); !right)
            table.problems.push_back(right.error().line());
    return table;
}

/// One exec every 50 ms: a v2 group that is entered the wrong way waits for a grace period each time.
Result<Table> sparse(Context& context)
{
    Table table{.name = "warm, one per 50 ms"};
    BERTH_TRY(auto stage, set_stage(context, table));
    std::vector<Case> cases;
    BERTH_TRY(auto r0, reference(kR0));
    cases.push_back(std::move(r0));
    cases.push_back(exec_case(context, kExec, *stage.plain, Logs::Ahead, false));
    if (stage.limited) cases.push_back(exec_case(context, kGroups, *stage.limited, Logs::Ahead, false));
    const std::string against(kR0);
    table.claims = {{.subject = kExec, .reference = against},
                    {.subject = kGroups, .reference = against, .bar = Bar{.limit = 1.55, .stretch = 1.25}}};
    measure(context, table, std::move(cases),
            {.rounds = std::max(context.options().rounds / 4, 5u), .pause = kSparsePause});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_warm(Context& context)
{
    std::vector<Table> tables;
    for (const auto part : {create, closed_loop, sparse}) {
        BERTH_TRY(auto table, part(context));
        tables.push_back(std::move(table));
    }
    return tables;
}

} // namespace berth::bench
