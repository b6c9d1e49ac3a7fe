#include "bench/bench.hpp"

#include <unistd.h>

#include <iostream>

#include <CLI/CLI.hpp>

#include "base/json.hpp"
#include "bench/generator.hpp"
#include "cli/app.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

constexpr unsigned kCiRounds = 40;

/// One line that is written over, on a terminal only.
void show_progress(std::string_view what)
{
    const std::string line = fmt::format("\r\033[K{}", what);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace

int bench_verb(int argc, char** argv)
{
    // What the relay measurement starts, inside and outside; no option, so that its start costs little.
    if (argc > 1 && std::string_view(argv[1]) == "generate") return bench::generate(argc - 2, argv + 2);
    CLI::App app("Measure sandboxes against references taken in the same run, and judge them by their bars.\n"
                 "Exit code 0 only when no bar fails, every answer was right and nothing was left behind.\n\n"
                 "Example:\n"
                 "  berth bench cold warm --peers\n"
                 "  berth bench --ci --json\n",
                 "berth bench");
    Common common;
    bench::Options options;
    std::vector<std::string> wanted;
    app.add_option("what", wanted, fmt::format("{} or all (default)", fmt::join(bench::subjects(), ", ")))
        ->type_name("WHAT...");
    app.add_flag("--peers", options.peers,
                 "Measure bwrap, nsjail, crun, runc and codex too, where they are found");
    auto* rounds = app.add_option("--rounds", options.rounds, "Samples of each case in a repeat")
                       ->check(CLI::Range(1u, 1000000u))
                       ->type_name("N")
                       ->capture_default_str();
    app.add_option("--repeats", options.repeats, "How often the whole is repeated")
        ->check(CLI::Range(1u, 100u))
        ->type_name("N")
        ->capture_default_str();
    app.add_flag("--ci", options.ci, "Fewer rounds, bars loosened by 1.5");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    if (options.ci && rounds->count() == 0) options.rounds = kCiRounds;
    if (talkative()) options.progress = show_progress;

    const auto path = state_path(common);
    if (!path) return report(path.error(), common);
    const auto state = local::StateDir::open(*path);
    if (!state) return report(state.error(), common);
    const auto found = bench::run(*state, wanted, options);
    if (talkative()) show_progress("");
    if (!found) return report(found.error(), common);
    if (common.json)
        std::cout << json::dump(bench::render_json(*found)) << "\n";
    else
        std::cout << bench::render_text(*found);
    return bench::tally(*found).ok() ? 0 : 1;
}

} // namespace berth::cli
