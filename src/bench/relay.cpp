#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

#include "base/io.hpp"
#include "bench/bench.hpp"
#include "bench/command.hpp"
#include "bench/kept.hpp"
#include "bench/measure.hpp"
#include "sys/child.hpp"
#include "sys/launch.hpp"

namespace berth::bench {

namespace {

using local::Sandbox;

constexpr const char* kInside = "/opt/berth-generator";
constexpr std::size_t kBuffer = 64u << 10;
constexpr unsigned kStamps = 100;
constexpr unsigned kStampMicros = 1000;
constexpr std::chrono::seconds kPatience{60};

struct Load {
    const char* name;
    std::size_t size;
    std::size_t total;
    double bar;
    double bar_followed;
};

constexpr Load kLoads[] = {
    {"80 B", 80, 80u * 200'000, 0.65, 0.6},
    {"4 KiB", 4096, 64u << 20, 0.85, 0.6},
    {"64 KiB", 65536, 128u << 20, 0.9, 0.75},
};

std::vector<std::string> words(const std::string& program, const Load& load)
{
    return {program, "bench", "generate", "bytes", std::to_string(load.size), std::to_string(load.total)};
}

std::vector<std::string> stamp_words(const std::string& program)
{
    return {program, "bench", "generate", "stamps", std::to_string(kStamps), std::to_string(kStampMicros)};
}

/// A program of the host with its stdout in a pipe of ours.
struct Piped {
    sys::Child child;
    UniqueFd out;
};

Result<Piped> start_piped(const std::vector<std::string>& argv)
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC) != 0) return fail_errno("making a pipe");
    UniqueFd read(ends[0]);
    sys::StepList list;
    list.dup(list.own(UniqueFd(ends[1])), 1);
    list.exec_path({argv.front()}, argv, {});
    BERTH_TRY(auto launched, sys::launch(list, {}));
    return Piped{.child = sys::Child::own(launched.pid, std::move(launched.pidfd)), .out = std::move(read)};
}

Status end_well(Piped& piped)
{
    BERTH_TRY(const auto status, piped.child.wait());
    if (!status.success()) return fail(Code::Internal, "the generator ended with {}", to_string(status));
    return {};
}

/// The reference: read from the pipe, write to a file, nothing else.
Result<double> plain_relay(Context& context, const std::vector<std::string>& argv, std::size_t total)
{
    // Without a name: it goes with the descriptor, however this ends.
    const UniqueFd file(::open(context.state().path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file) return fail_errno("making a file in {}", context.state().path());
    std::string buffer(kBuffer, '\0');
    const Stopwatch watch;
    BERTH_TRY(auto piped, start_piped(argv));
    std::size_t seen = 0;
    for (;;) {
        const auto n = ::read(piped.out.get(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading from the generator");
        if (n == 0) break;
        BERTH_CHECK(write_all(file.get(), std::string_view(buffer).substr(0, static_cast<std::size_t>(n))));
        seen += static_cast<std::size_t>(n);
    }
    const double taken = watch.nanoseconds();
    BERTH_CHECK(end_well(piped));
    if (seen != total) return fail(Code::Internal, "{} of {} bytes came through a pipe", seen, total);
    return static_cast<double>(total) * 1e9 / taken;
}

/// Until the log has its end; `take` gets every event.
Status follow_to_end(Sandbox& sandbox, const ExecSpec& exec,
                     const std::function<void(const ExecEvent&)>& take)
{
    BERTH_TRY(auto follower, sandbox.follow(exec.id, 0));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!follower.ended()) {
        BERTH_TRY(const auto events, follower.next(until));
        for (const auto& event : events) take(event);
        if (std::chrono::steady_clock::now() > until || follower.keeper_gone())
            return fail(Code::DeadlineExceeded, "the log of {} has no end", exec.id);
    }
    return {};
}

enum class Followed { No, Yes };

Result<double> keeper_relay(Context& context, Sandbox& sandbox, const Load& load, Followed followed)
{
    auto exec = exec_of(words(kInside, load));
    exec.log_limit = Bytes{load.total * 2};
    BERTH_CHECK(sandbox.make_ahead(1));
    std::size_t seen = 0;
    const auto count = [&seen](const ExecEvent& event) {
        if (event.kind == ExecEvent::Kind::Stdout) seen += event.bytes.size();
    };
    const Stopwatch watch;
    if (followed == Followed::Yes) {
        BERTH_CHECK(sandbox.exec(exec));
        BERTH_CHECK(follow_to_end(sandbox, exec, count));
    } else {
        BERTH_CHECK(exec_and_wait(sandbox, exec));
    }
    const double taken = watch.nanoseconds();
    if (followed == Followed::No) BERTH_CHECK(follow_to_end(sandbox, exec, count));
    discard(context, sandbox, exec.id);
    if (seen != load.total) return fail(Code::Internal, "{} of {} bytes are in the log", seen, load.total);
    return static_cast<double>(load.total) * 1e9 / taken;
}

double now_nanoseconds()
{
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// How long ago each stamp in `bytes` was taken; what is left over stays for the next call.
void take_stamps(std::string& bytes, std::vector<double>& ages)
{
    const double now = now_nanoseconds();
    std::size_t at = 0;
    for (; at + sizeof(std::int64_t) <= bytes.size(); at += sizeof(std::int64_t)) {
        std::int64_t stamp = 0;
        std::memcpy(&stamp, bytes.data() + at, sizeof stamp);
        ages.push_back(now - static_cast<double>(stamp));
    }
    bytes.erase(0, at);
}

Result<double> typical(const std::vector<double>& ages)
{
    if (ages.size() != kStamps) return fail(Code::Internal, "{} of {} stamps arrived", ages.size(), kStamps);
    return median(ages);
}

Result<double> pipe_latency(const std::string& program)
{
    BERTH_TRY(auto piped, start_piped(stamp_words(program)));
    std::vector<double> ages;
    std::string bytes;
    char buffer[512];
    for (;;) {
        const auto n = ::read(piped.out.get(), &buffer[0], sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        bytes.append(&buffer[0], static_cast<std::size_t>(n));
        take_stamps(bytes, ages);
    }
    BERTH_CHECK(end_well(piped));
    return typical(ages);
}

Result<double> follower_latency(Context& context, Sandbox& sandbox)
{
    const auto exec = exec_of(stamp_words(kInside));
    std::vector<double> ages;
    std::string bytes;
    BERTH_CHECK(sandbox.exec(exec));
    BERTH_CHECK(follow_to_end(sandbox, exec, [&](const ExecEvent& event) {
        if (event.kind != ExecEvent::Kind::Stdout) return;
        bytes += event.bytes;
        take_stamps(bytes, ages);
    }));
    discard(context, sandbox, exec.id);
    return typical(ages);
}

Result<Kept> make_sandbox(Context& context, const std::string& program)
{
    auto spec = context.spec();
    spec.mounts.push_back({.source = program, .target = kInside, .mode = Mount::Mode::ReadOnly});
    return make_kept(context, spec, {.groups = false});
}

Result<Table> throughput(Context& context, Sandbox& sandbox, const std::string& program)
{
    Table table{.name = "relay"};
    const bool wide = ::sysconf(_SC_NPROCESSORS_ONLN) >= 4;
    std::vector<Case> cases;
    for (const auto& load : kLoads) {
        const std::string plain = fmt::format("plain relay, {}", load.name);
        const std::string log = fmt::format("log by the keeper, {}", load.name);
        const std::string followed = fmt::format("log and a follower, {}", load.name);
        const auto rate = Unit::BytesPerSecond;
        cases.push_back({.name = plain,
                         .run = [&context, argv = words(program, load),
                                 total = load.total] { return plain_relay(context, argv, total); },
                         .unit = rate});
        cases.push_back(
            {.name = log,
             .run = [&context, &sandbox, load] { return keeper_relay(context, sandbox, load, Followed::No); },
             .unit = rate});
        cases.push_back({.name = followed,
                         .run = [&context, &sandbox,
                                 load] { return keeper_relay(context, sandbox, load, Followed::Yes); },
                         .unit = rate});
        const double aim = load.size < 4096 ? 0.8 : 1.0;
        table.claims.push_back({.subject = log,
                                .reference = plain,
                                .relation = Relation::Share,
                                .bar = Bar{.limit = load.bar, .stretch = aim}});
        table.claims.push_back({.subject = followed,
                                .reference = plain,
                                .relation = Relation::Share,
                                .bar = Bar{.limit = wide ? 0.8 : load.bar_followed, .stretch = 0.8}});
    }
    measure(context, table, std::move(cases), {.rounds = std::max(context.options().rounds / 40, 1u)});
    return table;
}

Table latency(Context& context, Sandbox& sandbox, const std::string& program)
{
    Table table{.name = "relay, write until it is read"};
    constexpr const char* kPipe = "plain pipe";
    constexpr const char* kFollower = "follower of the log";
    std::vector<Case> cases{
        {.name = kPipe, .run = [program] { return pipe_latency(program); }},
        {.name = kFollower, .run = [&context, &sandbox] { return follower_latency(context, sandbox); }}};
    table.claims.push_back({.subject = kFollower, .reference = kPipe, .bar = Bar{.limit = 8, .stretch = 4}});
    measure(context, table, std::move(cases), {.rounds = std::max(context.options().rounds / 40, 1u)});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_relay(Context& context)
{
    BERTH_TRY(const auto program, own_program());
    BERTH_TRY(const auto kept, make_sandbox(context, program));
    std::vector<Table> tables;
    BERTH_TRY(auto rates, throughput(context, *kept, program));
    tables.push_back(std::move(rates));
    tables.push_back(latency(context, *kept, program));
    if (const auto right = check_kept(context, *kept); !right)
        tables.back().problems.push_back(right.error().line());
    return tables;
}

} // namespace berth::bench
