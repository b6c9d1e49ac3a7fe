// Time to interactive through a server: create a sandbox, run a command, and the first of its output is
// there. By a client that does nothing but what the protocol asks for, so that the server's share is what is
// seen.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>
#include <thread>

#include "backend/e2b/api.hpp"
#include "backend/e2b/envd.hpp"
#include "base/json_reader.hpp"
#include "base/scope_exit.hpp"
#include "bench/bench.hpp"
#include "bench/command.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"
#include "berth/berth.hpp"
#include "protocol/e2b/process.hpp"

namespace berth::bench {

namespace {

using namespace std::chrono_literals;

constexpr const char* kCold = "create and exec by the library";
constexpr const char* kSequential = "one after the other";
constexpr const char* kStaggered = "one every 200 ms";
constexpr const char* kBurst = "all at once";
constexpr auto kStagger = 200ms;
constexpr unsigned kAtOnce = 100;
constexpr unsigned kAtOnceCi = 30;

/// `berth serve` as a process of its own, gone with this.
class Server {
public:
    [[nodiscard]] static Result<std::unique_ptr<Server>> start(const std::string& data)
    {
        BERTH_TRY(const auto program, own_program());
        std::array<int, 2> pipe{};
        if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail_errno("making a pipe");
        const UniqueFd says(pipe[0]);
        UniqueFd writes(pipe[1]);
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        const ScopeExit destroy([&] { ::posix_spawn_file_actions_destroy(&actions); });
        ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
        std::array<std::string, 9> words{program,  "serve", "--listen",    "127.0.0.1:0", "--json",
                                         "--data", data,    "--log-level", "error"};
        std::array<char*, 10> argv{};
        for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
        std::unique_ptr<Server> out(new Server);
        const int failed =
            ::posix_spawn(&out->pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
        if (failed != 0) return fail_with(failed, "starting {}", program);
        writes.reset();
        std::string line;
        for (char byte = 0; ::read(says.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
        BERTH_TRY(const auto document, json::parse(line));
        const json::Reader at(document);
        BERTH_TRY(const auto url, at.at("listening"));
        BERTH_TRY(out->url_, url.string());
        BERTH_TRY(const auto key, at.at("key"));
        BERTH_TRY(out->key_, key.string());
        return out;
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server()
    {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGTERM);
        ::waitpid(pid_, nullptr, 0);
        // What it left to the next of kin is ours, as this process has wished.
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
    }

    [[nodiscard]] Result<e2b_client::Config> config() const
    {
        return e2b_client::read_config(
            {{"E2B_API_KEY", key_}, {"E2B_API_URL", url_}, {"E2B_SANDBOX_URL", url_}});
    }

private:
    Server() = default;
    pid_t pid_ = -1;
    std::string url_;
    std::string key_;
};

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
    BERTH_TRY(const auto server, Server::start(data.path() + "/server"));
    BERTH_TRY(const auto config, server->config());
    e2b_client::Api api(config);
    e2b_client::Envd envd(api.config());
    BERTH_TRY(const auto berth, Berth::open({.data = data.path() + "/library", .threads = 2}));

    std::vector<Case> cases;
    cases.push_back({.name = kCold, .run = [&] { return by_the_library(*berth); }});
    cases.push_back({.name = kSequential, .run = [&] { return first_output(api, envd); }});
    table.claims = {{.subject = kSequential, .reference = kCold, .bar = Bar{.limit = 3, .stretch = 2}},
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
    return std::vector<Table>{std::move(table)};
}

} // namespace berth::bench
