#include <unistd.h>

#include "bench/bench.hpp"
#include "bench/command.hpp"
#include "bench/measure.hpp"
#include "bench/one_shot_check.hpp"
#include "bench/peers.hpp"
#include "bench/workers.hpp"

namespace berth::bench {

namespace {

using local::Pools;

constexpr const char* kPlain = "sandbox, no netns";
constexpr const char* kPooled = "sandbox, pooled netns";
constexpr const char* kNew = "sandbox, new netns";
constexpr const char* kLimits = "sandbox with limits, no netns";
constexpr const char* kLimitsNew = "sandbox with limits, new netns";
constexpr const char* kAsProcess = "berth run -- true";

struct Kind {
    const char* name;
    policy::Network network;
    bool limits;
    bool pooled_network;
};

constexpr Kind kKinds[] = {
    {kPlain, policy::Network::Host, false, false},   {kPooled, policy::Network::Off, false, true},
    {kNew, policy::Network::Off, false, false},      {kLimits, policy::Network::Host, true, false},
    {kLimitsNew, policy::Network::Off, true, false},
};

/// Create, exec true, tear down; what pools hold ready is made up before the clock starts.
Case sandbox_case(Context& context, const Kind& kind)
{
    const auto pools = std::make_shared<Pools>(
        context.state(),
        Pools::Sizes{.identities = 1, .networks = kind.pooled_network ? 1u : 0u, .groups = 1});
    auto run = [&context, kind, pools]() -> Result<double> {
        auto spec = context.spec();
        spec.policy.network = kind.network;
        if (kind.limits) spec.policy.limits = {.memory = 1_GiB, .cpus = 1.0, .pids = 4096};
        BERTH_CHECK(pools->refill());
        const Stopwatch watch;
        BERTH_TRY(const auto outcome, one_shot(context, spec, {kTrue}, pools.get()));
        const double taken = watch.nanoseconds();
        if (outcome.status.code() != 0)
            return fail(Code::Internal, "true in a sandbox ended with {}", to_string(outcome.status));
        return taken;
    };
    return {.name = kind.name, .run = std::move(run)};
}

/// Adds the case, unless the machine refuses what it needs.
void add_sandbox(Context& context, Table& table, std::vector<Case>& cases, const Kind& kind)
{
    if (kind.pooled_network && ::geteuid() != 0) {
        table.skipped.push_back({.name = kind.name,
                                 .reason = "an ordinary user's network namespaces come with the clone",
                                 .remedy = "run as root"});
        return;
    }
    Case one = sandbox_case(context, kind);
    const auto tried = one.run();
    if (!tried && tried.error().code == Code::Unsupported)
        table.skipped.push_back(
            {.name = kind.name, .reason = tried.error().line(), .remedy = "berth doctor"});
    else
        cases.push_back(std::move(one)); // a failure shows again when it is measured
}

void add_bars(Table& table)
{
    const auto cost = [&](const char* subject, std::string_view reference, Bar bar) {
        table.claims.push_back({.subject = subject, .reference = std::string(reference), .bar = bar});
    };
    const auto lead = [&](const char* subject, const char* peer, Bar bar) {
        table.claims.push_back(
            {.subject = subject, .reference = peer, .relation = Relation::Lead, .bar = bar});
    };
    if (::geteuid() == 0) {
        cost(kPlain, kRA, {.limit = 2.7, .stretch = 2.1});
        cost(kPooled, kRA, {.limit = 2.7, .stretch = 2.1});
        cost(kNew, kRB, {.limit = 2.2, .stretch = 1.8});
    } else {
        cost(kPlain, kRA, {.limit = 3.1, .stretch = 2.5});
        cost(kNew, kRB, {.limit = 2.4, .stretch = 1.9});
    }
    cost(kLimits, kRA, {.limit = 3.4, .stretch = 2.7});
    table.claims.push_back({.subject = kLimitsNew, .reference = std::string(kRB)});
    lead(kPooled, kBwrap, {.limit = 2.4, .stretch = 3});
    lead(kNew, kBwrap, {.limit = 1.9, .stretch = 3});
    lead(kLimits, kBwrap, {.limit = 1.9, .stretch = 3});
    lead(kLimitsNew, kBwrap, {.limit = 1.6, .stretch = 3});
    lead(kPooled, kNsjail, {.limit = 2.5, .stretch = 3});
    lead(kLimits, "crun run", {.limit = 4});
    lead(kLimits, "runc run", {.limit = 8});
}

Status add_references(std::vector<Case>& cases, std::initializer_list<std::string_view> names)
{
    for (const auto name : names) {
        BERTH_TRY(auto one, reference(name));
        cases.push_back(std::move(one));
    }
    return {};
}

Result<Table> closed_loop(Context& context)
{
    Table table{.name = "cold"};
    std::vector<Case> cases;
    BERTH_CHECK(add_references(cases, {kR0, kRA, kRB}));
    for (const auto& kind : kKinds) add_sandbox(context, table, cases, kind);
    std::vector<std::unique_ptr<OciPeer>> runtimes;
    if (context.options().peers) {
        auto peers = process_peers(context);
        table.skipped.insert(table.skipped.end(), peers.skipped.begin(), peers.skipped.end());
        for (auto& one : peers.cases) cases.push_back(std::move(one));
        for (const std::string name : {"crun", "runc"}) add_runtime(context, table, name, runtimes);
        for (const auto& runtime : runtimes) {
            BERTH_TRY(auto one, runtime->run_case());
            cases.push_back(std::move(one));
        }
    }
    add_bars(table);
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});
    return table;
}

/// One launch every 50 ms: a tight loop hides what waits for the kernel's grace periods.
Result<Table> sparse(Context& context)
{
    Table table{.name = "cold, one per 50 ms"};
    std::vector<Case> cases;
    BERTH_CHECK(add_references(cases, {kRA}));
    for (const auto& kind : kKinds)
        if (kind.network == policy::Network::Host) add_sandbox(context, table, cases, kind);
    const Bar bar{.limit = 3, .stretch = 2.5};
    table.claims.push_back({.subject = kPlain, .reference = std::string(kRA), .bar = bar});
    table.claims.push_back({.subject = kLimits, .reference = std::string(kRA), .bar = bar});
    measure(context, table, std::move(cases),
            {.rounds = std::max(context.options().rounds / 4, 5u), .pause = kSparsePause});
    return table;
}

/// As many launches at once as there are cores: what serialises in the kernel shows here.
Result<Table> together(Context& context)
{
    const auto cores = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    Table table{.name = fmt::format("cold, {} workers at once", cores)};
    const auto make = [](Context& own) -> Result<std::vector<Case>> {
        std::vector<Case> cases;
        BERTH_CHECK(add_references(cases, {kRA, kRB}));
        for (const auto& kind : kKinds)
            if (!kind.limits && !kind.pooled_network) cases.push_back(sandbox_case(own, kind));
        return cases;
    };
    BERTH_CHECK(measure_together(context, table, cores, make,
                                 {.rounds = std::max(context.options().rounds / 2, 1u)}));
    table.claims.push_back({.subject = kPlain, .reference = std::string(kRA)});
    table.claims.push_back({.subject = kNew, .reference = std::string(kRB)});
    return table;
}

/// The whole program, its own start included, as a shell would run it.
Result<Table> as_process(Context& context)
{
    Table table{.name = "as a process, new netns"};
    std::vector<Case> cases;
    BERTH_CHECK(add_references(cases, {kRB}));
    BERTH_TRY(const auto program, own_program());
    BERTH_TRY(auto made, Command::make({program, "run", "--data", context.state().path(), "--", kTrue},
                                       {.quiet = true}));
    const auto command = std::make_shared<Command>(std::move(made));
    cases.push_back({.name = kAsProcess, .run = [command] { return command->time(); }});
    if (context.options().peers) {
        auto peers = process_peers(context);
        table.skipped = std::move(peers.skipped);
        for (auto& one : peers.cases) cases.push_back(std::move(one));
    } else {
        table.skipped.push_back(
            {.name = kBwrap, .reason = "peers were not asked for", .remedy = "berth bench --peers"});
    }
    table.claims.push_back({.subject = kAsProcess, .reference = std::string(kRB)});
    table.claims.push_back({.subject = kAsProcess,
                            .reference = kBwrap,
                            .relation = Relation::Lead,
                            .bar = Bar{.limit = 1.1, .stretch = 1.4}});
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_cold(Context& context)
{
    std::vector<Table> tables;
    for (const auto part : {closed_loop, sparse, together, as_process}) {
        BERTH_TRY(auto table, part(context));
        tables.push_back(std::move(table));
    }
    if (const auto right = check_one_shot(context); !right)
        tables.back().problems.push_back(right.error().line());
    return tables;
}

} // namespace berth::bench
