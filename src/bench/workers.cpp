#include "bench/workers.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "base/io.hpp"
#include "base/json.hpp"
#include "sys/child.hpp"

namespace berth::bench {

namespace {

constexpr std::chrono::milliseconds kLeakPatience{3000};
constexpr Bytes kMaxAnswer = 256_MiB;

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Result<Pipe> make_pipe()
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC) != 0) return fail_errno("making a pipe");
    return Pipe{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

json::Object to_json(const Table& table)
{
    json::Array series;
    for (const auto& one : table.series) {
        json::Array samples;
        for (const double sample : one.all()) samples.emplace_back(sample);
        series.emplace_back(std::move(samples));
    }
    json::Array problems;
    for (const auto& problem : table.problems) problems.emplace_back(problem);
    json::Object out;
    out["series"] = std::move(series);
    out["problems"] = std::move(problems);
    return out;
}

/// What a worker does with its life; the table it answers has one repeat.
Table work(const local::StateDir& state, const MakeCases& make, const Pace& pace, int start)
{
    Table table;
    Context context(state, Options{.rounds = pace.rounds, .repeats = 1});
    const Census before = context.census();
    {
        auto cases = make(context);
        if (!cases) {
            table.problems.push_back(cases.error().line());
            return table;
        }
        char ignored = 0;
        [[maybe_unused]] const auto n = ::read(start, &ignored, 1); // the end of file is the word to go
        measure(context, table, *std::move(cases), pace);
    }
    for (const auto& left : leftovers(before, [&] { return context.census(); }, kLeakPatience))
        table.problems.push_back("left behind by a worker: " + left);
    return table;
}

struct Worker {
    sys::Child child;
    UniqueFd answer;
};

Result<Worker> start_worker(const local::StateDir& state, const MakeCases& make, const Pace& pace,
                            const Pipe& start)
{
    BERTH_TRY(auto answer, make_pipe());
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno("starting a worker");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (::getppid() != parent) ::_exit(1);
        ::close(start.write.get()); // our copy would keep the others waiting
        const auto text = json::dump(to_json(work(state, make, pace, start.read.get())));
        ::_exit(write_all(answer.write.get(), text) ? 0 : 1);
    }
    BERTH_TRY(auto child, sys::Child::adopt(pid));
    return Worker{.child = std::move(child), .answer = std::move(answer.read)};
}

Status collect(Worker& worker, Table& table)
{
    BERTH_TRY(const auto text, read_to_end(worker.answer.get(), kMaxAnswer, "the answer of a worker"));
    BERTH_TRY(const auto status, worker.child.wait());
    if (!status.success()) return fail(Code::Internal, "a worker ended with {}", to_string(status));
    BERTH_TRY(const auto answer, json::parse(text, {.bytes = kMaxAnswer.count}));
    const auto& series = answer.as_object().at("series").as_array();
    for (std::size_t i = 0; i < std::min(series.size(), table.series.size()); ++i)
        for (const auto& sample : series[i].as_array())
            table.series[i].repeats.back().push_back(sample.to_number<double>());
    for (const auto& problem : answer.as_object().at("problems").as_array())
        table.problems.emplace_back(problem.as_string());
    return {};
}

} // namespace

Status measure_together(Context& context, Table& table, unsigned workers, const MakeCases& make,
                        const Pace& pace)
{
    BERTH_TRY(const auto cases, make(context)); // for their names
    for (const auto& one : cases) table.series.push_back({.name = one.name, .unit = one.unit, .repeats = {}});
    for (unsigned repeat = 0; repeat < context.options().repeats && !context.interrupted(); ++repeat) {
        context.progress(
            fmt::format("{}: repeat {} of {}", table.name, repeat + 1, context.options().repeats));
        for (auto& series : table.series) series.repeats.emplace_back();
        BERTH_TRY(auto start, make_pipe());
        std::vector<Worker> all;
        for (unsigned i = 0; i < workers; ++i) {
            BERTH_TRY(auto worker, start_worker(context.state(), make, pace, start));
            all.push_back(std::move(worker));
        }
        start.write.reset();
        for (auto& worker : all) BERTH_CHECK(collect(worker, table));
    }
    return {};
}

} // namespace berth::bench
