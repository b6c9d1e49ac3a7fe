#include <csignal>
#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>

#include "backend/registry.hpp"
#include "base/json.hpp"
#include "cli/app.hpp"
#include "cli/exec_server_url.hpp"
#include "cli/verbs.hpp"
#include "conformance/runner.hpp"

namespace berth::cli {

namespace {

volatile std::sig_atomic_t g_stop = 0;

/// Whoever does not want to wait for the check under way says so again.
void stop_soon(int signo)
{
    g_stop = signo;
    std::signal(signo, SIG_DFL);
}

void print_list(const std::vector<conformance::Check>& checks, bool as_json)
{
    json::Array list;
    for (const auto& check : checks) {
        if (!as_json) {
            std::cout << fmt::format("{}: {}\n", check.group, check.name);
            continue;
        }
        json::Array needs;
        for (const auto& need : check.needs) needs.emplace_back(conformance::to_string(need));
        json::Object one;
        one["group"] = check.group;
        one["name"] = check.name;
        one["needs"] = std::move(needs);
        list.emplace_back(std::move(one));
    }
    if (!as_json) return;
    json::Object document;
    document["checks"] = std::move(list);
    std::cout << json::dump(document) << "\n";
}

} // namespace

int conformance_verb(int argc, char** argv)
{
    CLI::App app("Check that a backend does what every backend must, and refuses what it does not claim.\n"
                 "Works in a directory of its own below the state directory and removes what it made.\n"
                 "Exit code 0 only when nothing failed.\n\n"
                 "Example:\n"
                 "  berth conformance --backend local\n"
                 "  berth conformance --only files --only \"exit code 42 is told\"\n"
                 "  berth conformance --list\n",
                 "berth conformance");
    Common common;
    conformance::RunOptions options;
    std::vector<std::string> only;
    std::string root;
    bool list = false;
    app.add_option("--backend", options.place.backend, "Which backend")
        ->type_name("NAME")
        ->capture_default_str();
    std::string url;
    add_url_option(app, url);
    app.add_option("--only", only, "A group, a check, or a part of a name; may be repeated")
        ->type_name("GROUP|CHECK")
        ->allow_extra_args(false);
    app.add_flag("--list", list, "Show the checks instead of running them");
    app.add_flag("--fail-fast", options.stop_at_failure, "Stop at the first failure; else all are run");
    app.add_option("--template", root, "What sandboxes start from: host, dir:PATH, tar:PATH")
        ->type_name("TEMPLATE");
    app.add_option("--user", options.place.user, "The user inside")->type_name("NAME")->capture_default_str();
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;

    const auto checks = conformance::choose(only);
    if (!checks) return report(checks.error(), common);
    if (list) {
        print_list(*checks, common.json);
        return 0;
    }
    if (const auto used = use_url(url, options.place.backend); !used) return report(used.error(), common);
    if (!root.empty()) {
        auto parsed = parse_template(root);
        if (!parsed) return report(parsed.error(), common);
        options.place.root = *std::move(parsed);
    }
    auto path = state_path(common);
    if (!path) return report(path.error(), common);
    options.place.directory = *std::move(path);
    if (!common.json)
        options.on_finding = [](const conformance::Finding& finding) {
            std::cout << conformance::render_line(finding) << std::flush;
        };
    for (const int signo : {SIGINT, SIGTERM, SIGHUP}) std::signal(signo, stop_soon);
    options.enough = [] { return g_stop != 0; };
    const auto found = conformance::run(backends(), *checks, options);
    if (!found) return report(found.error(), common);
    if (common.json)
        std::cout << json::dump(conformance::render_json(*found)) << "\n";
    else
        std::cout << conformance::render_summary(*found);
    if (g_stop != 0) {
        say("interrupted: the checks after that were not run, what the others made is removed");
        return 128 + g_stop;
    }
    return found->ok() ? 0 : 1;
}

} // namespace berth::cli
