// Time to interactive through a server: create a sandbox, run a command, and the first of its output is
// there. By a client that does nothing but what the protocol asks for, so that the server's share is what is
// seen.

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>

#include "backend/e2b/api.hpp"
#include "backend/e2b/envd.hpp"
#include "bench/bench.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"
#include "bench/sdk_rows.hpp"
#include "bench/served.hpp"
#include "berth/berth.hpp"
#include "protocol/e2b/process.hpp"

namespace berth::bench {

namespace {

using namespace std::chrono_literals;

constexpr const char* kCold = "create and exec by the library";
constexpr const char* kSequential = "one after the other";
constexpr const char* kParked = "the same, made ahead";
constexpr const char* kParkedMetric = "berth_pool_parked";
constexpr const char* kStaggered = "one every 200 ms";
constexpr const char* kBurst = "all at once";
constexpr const char* kPlaces = "4";
constexpr auto kStagger = 200ms;
constexpr auto kParkPatience = 30s;
constexpr unsigned kAtOnce = 100;
constexpr unsigned kAtOnceCi = 30;

/// Nanoseconds from the wish for a sandbox to the first output of its first command.
Result<double> first_output(e2b_client::Api& api, e2b_client::Envd& envd)
{
    e2b::NewSandbox wish;
    wish.template_id = "base";
    e2b::StartRequest start;
    start.process = {.cmd = "/bin/sh", .args = {"-c", "echo ready"}, .envs = {}, .cwd = {}};
    start.stdin_open = false;
    const Stopwatch watch;
    BERTH_TRY(const auto made, api.create(wish));
    double taken = 0;
    std::string out;
    const auto on_message = [&](std::string_view text) -> Status {
        BERTH_TRY(const auto event, e2b::read_event(text));
        if (event.stream && taken == 0) taken = watch.nanoseconds();
        out += event.bytes;
        return {};
    };
    BERTH_TRY(const auto session, envd.session(made.id, made.token, made.domain));
    e2b_client::Cord cord;
    const auto end =
        envd.stream(session, "process.Process/Start", e2b::start_request(start), {}, on_message, cord);
    const auto gone = api.kill(made.id);
    if (!end.told) return std::unexpected(end.cut);
    if (end.failure) return std::unexpected(connect::error_of(*end.failure));
    if (!gone) return std::unexpected(gone.error());
    if (out != "ready\n") return fail(Code::Internal, "the command printed {} bytes, not 6", out.size());
    return taken;
}

Result<double> by_the_library(Berth& berth)
{
    AcquireRequest request;
    request.key = "bench";
    BERTH_TRY(request.spec.policy, policy::preset("sandbox"));
    ExecSpec exec;
    exec.argv = {"/bin/sh", "-c", "echo ready"};
    const Stopwatch watch;
    BERTH_TRY(const auto made, berth.run(berth.lifecycle().acquire(std::move(request))));
    const auto outcome = berth.run(berth.exec(made.record.id(), std::move(exec)));
    const double taken = watch.nanoseconds();
    BERTH_TRY([[maybe_unused]] const auto gone, berth.run(berth.lifecycle().destroy(made.record.id())));
    if (!outcome) return std::unexpected(outcome.error());
    if (!outcome->status.success())
        return fail(Code::Internal, "it ended with {}", to_string(outcome->status));
    return taken;
}

Status until_parked(const Served& server)
{
    const auto until = std::chrono::steady_clock::now() + kParkPatience;
    for (;;) {
        BERTH_TRY(const double parked, server.metric(kParkedMetric));
        if (parked > 0) return {};
        if (std::chrono::steady_clock::now() > until)
            return fail(Code::DeadlineExceeded, "the server makes nothing ahead");
        std::this_thread::sleep_for(10ms);
    }
}

/// Each by a thread of its own, begun `apart` from the one before.
Series together(const e2b_client::Config& config, const char* name, unsigned count,
                std::chrono::milliseconds apart, std::vector<std::string>& problems)
{
    e2b_client::Api api(config);
    e2b_client::Envd envd(api.config());
    std::mutex mutex;
    std::vector<double> samples;
    unsigned failed = 0;
    std::string why;
    std::vector<std::thread> threads;
    const auto begun = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < count; ++i) {
        std::this_thread::sleep_until(begun + apart * i);
        threads.emplace_back([&] {
            const auto taken = first_output(api, envd);
            const std::scoped_lock lock(mutex);
            if (taken) {
                samples.push_back(*taken);
            } else {
                ++failed;
                why = taken.error().line();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    if (failed > 0) problems.push_back(fmt::format("{}: {} of {} failed: {}", name, failed, count, why));
    return {.name = name, .repeats = {std::move(samples)}};
}

} // namespace

Result<std::vector<Table>> bench_tti(Context& context)
{
    Table table{.name = "tti"};
    BERTH_TRY(const auto data, OwnData::make(context, "tti"));
    // None is made ahead here: what a server does when it has to, is what is seen.
    BERTH_TRY(const auto server, Served::start(data.path() + "/server", {"--pool", "0"}));
    BERTH_TRY(const auto warm, Served::start(data.path() + "/warm", {"--pool", kPlaces}));
    BERTH_TRY(const auto config, server->config());
    e2b_client::Api api(config);
    e2b_client::Envd envd(api.config());
    BERTH_TRY(const auto warm_config, warm->config());
    e2b_client::Api warm_api(warm_config);
    e2b_client::Envd warm_envd(warm_api.config());
    BERTH_TRY(const auto berth, Berth::open({.data = data.path() + "/library", .threads = 2}));

    std::vector<Case> cases;
    cases.push_back({.name = kCold, .run = [&] { return by_the_library(*berth); }});
    cases.push_back({.name = kSequential, .run = [&] { return first_output(api, envd); }});
    cases.push_back({.name = kParked, .run = [&]() -> Result<double> {
                         BERTH_CHECK(until_parked(*warm));
                         return first_output(warm_api, warm_envd);
                     }});
    table.claims = {{.subject = kSequential, .reference = kCold, .bar = Bar{.limit = 3, .stretch = 2}},
                    {.subject = kParked, .reference = kCold, .bar = Bar{.limit = 2}},
                    {.subject = kParked, .reference = kSequential},
                    {.subject = kSdkSequential, .reference = kCold},
                    {.subject = kSdkSequential, .reference = kSequential},
                    {.subject = kSdkStaggered, .reference = kCold},
                    {.subject = kSdkBurst, .reference = kCold},
                    {.subject = kStaggered, .reference = kCold},
                    {.subject = kBurst, .reference = kCold}};
    measure(context, table, std::move(cases), {.rounds = std::min(context.options().rounds, 100u)});

    const unsigned count = context.options().ci ? kAtOnceCi : kAtOnce;
    const std::array rows{std::pair{kStaggered, std::chrono::milliseconds(kStagger)},
                          std::pair{kBurst, std::chrono::milliseconds(0)}};
    for (const auto& [name, apart] : rows) {
        Series series{.name = name};
        for (unsigned i = 0; i < context.options().repeats && !context.interrupted(); ++i) {
            context.progress(fmt::format("tti: {} of {}, {}", i + 1, context.options().repeats, name));
            auto one = together(config, name, count, apart, table.problems);
            series.repeats.push_back(std::move(one.repeats.front()));
        }
        table.series.push_back(std::move(series));
    }
    add_sdk_rows(context, table, *server, count);
    return std::vector<Table>{std::move(table)};
}

} // namespace berth::bench
