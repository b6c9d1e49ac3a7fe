#include "bench/bench.hpp"

#include <sys/prctl.h>

#include <algorithm>

#include "base/strings.hpp"
#include "bench/one_shot_check.hpp"

namespace berth::bench {

namespace {

constexpr double kCiLoosening = 1.5;
constexpr std::chrono::milliseconds kLeakPatience{3000};

struct Subject {
    std::string name;
    Result<std::vector<Table>> (*run)(Context&);
};

const std::vector<Subject>& all_subjects()
{
    static const std::vector<Subject> all{
        {"floor", bench_floor}, {"cold", bench_cold}, {"warm", bench_warm},   {"density", bench_density},
        {"relay", bench_relay}, {"log", bench_log},   {"fork", bench_fork},   {"docker", bench_docker},
        {"tti", bench_tti},     {"http", bench_http}, {"codex", bench_codex},
    };
    return all;
}

Result<std::vector<Subject>> choose(const std::vector<std::string>& wanted)
{
    for (const auto& word : wanted) {
        const auto& names = subjects();
        if (word == "all" || std::ranges::find(names, word) != names.end()) continue;
        const std::string near = nearest(word, names);
        return fail(Code::Invalid, "nothing to measure is called '{}'{}", printable(word, 40),
                    near.empty() ? "" : fmt::format(", did you mean {}?", near));
    }
    const bool all = wanted.empty() || std::ranges::find(wanted, "all") != wanted.end();
    std::vector<Subject> chosen;
    for (const auto& subject : all_subjects())
        if (all || std::ranges::find(wanted, subject.name) != wanted.end()) chosen.push_back(subject);
    return chosen;
}

} // namespace

const std::vector<std::string>& subjects()
{
    static const std::vector<std::string> names = [] {
        std::vector<std::string> out;
        for (const auto& subject : all_subjects()) out.push_back(subject.name);
        return out;
    }();
    return names;
}

Result<Report> run(const local::StateDir& state, const std::vector<std::string>& wanted,
                   const Options& options)
{
    BERTH_TRY(const auto chosen, choose(wanted));
    // What a sandbox might leave behind falls to us, and the census sees it.
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail_errno("becoming a subreaper");

    Context context(state, options);
    Report report{.machine = look_at_machine(state), .rounds = options.rounds, .repeats = options.repeats};
    report.loosen = options.ci ? kCiLoosening : 1;
    // The first sandbox makes the template and what this process keeps for good: before any census.
    BERTH_CHECK(check_one_shot(context));

    for (const auto& subject : chosen) {
        const Census before = context.census();
        auto tables = subject.run(context);
        if (!tables)
            return std::unexpected(std::move(tables).error().while_doing("measuring " + subject.name));
        if (context.interrupted())
            return fail(Code::Conflict, "interrupted while measuring {}", subject.name);
        context.progress(fmt::format("{}: looking for what was left behind", subject.name));
        for (const auto& left : leftovers(before, [&] { return context.census(); }, kLeakPatience))
            tables->back().problems.push_back(fmt::format("left behind by {}: {}", subject.name, left));
        for (auto& table : *tables) report.tables.push_back(std::move(table));
    }
    report.machine.load_after = load_now();
    return report;
}

} // namespace berth::bench
