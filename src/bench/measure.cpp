#include "bench/measure.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>

#include "bench/command.hpp"

namespace berth::bench {

namespace {

struct Runner {
    Context* context;
    Table* table;
    std::vector<Case> cases;
    std::vector<std::size_t> order;
    std::minstd_rand random{std::random_device{}()};
    std::size_t first = 0; ///< where our series start in the table

    void round(unsigned number, const Pace& pace, bool keep)
    {
        std::ranges::shuffle(order, random);
        for (const std::size_t i : order) {
            Case& one = cases[i];
            if (!one.run || (number % one.every != 0 && keep) || context->interrupted()) continue;
            if (pace.pause.count() > 0) std::this_thread::sleep_for(pace.pause);
            auto sample = one.run();
            if (!sample) {
                if (!context->interrupted())
                    table->problems.push_back(fmt::format("{}: {}", one.name, sample.error().line()));
                one.run = nullptr;
            } else if (keep) {
                table->series[first + i].repeats.back().push_back(*sample);
            }
        }
    }
};

} // namespace

void measure(Context& context, Table& table, std::vector<Case> cases, const Pace& pace)
{
    Runner runner{
        .context = &context, .table = &table, .cases = std::move(cases), .first = table.series.size()};
    for (std::size_t i = 0; i < runner.cases.size(); ++i) {
        runner.order.push_back(i);
        table.series.push_back({.name = runner.cases[i].name, .unit = runner.cases[i].unit, .repeats = {}});
    }
    const unsigned warm_up = std::clamp(pace.rounds / 10, 1u, 20u);
    for (unsigned repeat = 0; repeat < context.options().repeats; ++repeat) {
        for (std::size_t i = 0; i < runner.cases.size(); ++i)
            table.series[runner.first + i].repeats.emplace_back();
        for (unsigned i = 0; i < warm_up; ++i) runner.round(0, pace, false);
        for (unsigned i = 0; i < pace.rounds; ++i) {
            if (i % 10 == 0)
                context.progress(fmt::format("{}: repeat {} of {}, round {} of {}", table.name, repeat + 1,
                                             context.options().repeats, i, pace.rounds));
            runner.round(i, pace, true);
        }
    }
}

Result<Case> reference(std::string_view name)
{
    std::uint64_t namespaces = 0;
    if (name != kR0) namespaces |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    if (name == kRB) namespaces |= CLONE_NEWNET;
    if (namespaces != 0 && ::geteuid() != 0) namespaces |= CLONE_NEWUSER;
    BERTH_TRY(auto made, Command::make({kTrue}, {.namespaces = namespaces}));
    // A std::function is copied; the command with its descriptors is not.
    const auto command = std::make_shared<Command>(std::move(made));
    return Case{.name = std::string(name), .run = [command] { return command->time(); }};
}

} // namespace berth::bench
