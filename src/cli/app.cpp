#include "cli/app.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>

#include "backend/local/state_dir.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "cli/reader_gone.hpp"
#include "cli/remote.hpp"
#include "cli/usage.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

std::vector<VerbShape>* g_shapes = nullptr;

std::string environment(const char* name)
{
    const char* value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): before any thread
    return value == nullptr ? std::string{} : std::string(value);
}

Status configure_log(const Common& common)
{
    const std::string level = common.log_level.empty() ? environment("BERTH_LOG") : common.log_level;
    const auto parsed_format = log::parse_format(common.log_format);
    if (!parsed_format) return std::unexpected(parsed_format.error());
    if (level.empty()) {
        log::configure(log::Level::Warn, *parsed_format);
        return {};
    }
    BERTH_TRY(const auto parsed, log::parse_level(level));
    log::configure(parsed, *parsed_format);
    return {};
}

} // namespace

void add_common(CLI::App& app, Common& common)
{
    app.add_flag("--json", common.json, "Machine-readable output on stdout, errors too")->group("Common");
    app.add_option("--data", common.data, "State directory (BERTH_DATA)")->type_name("DIR")->group("Common");
    app.add_option("--log-level", common.log_level, "debug, info, warn, error or off (BERTH_LOG)")
        ->type_name("LEVEL")
        ->group("Common");
    app.add_option("--log-format", common.log_format, "text or json")->type_name("FORMAT")->group("Common");
    app.add_option("--color", common.color, "auto, always or never (NO_COLOR)")
        ->type_name("WHEN")
        ->group("Common");
    if (!remote::works_there(app.get_name())) return;
    static std::string taken; // main() has taken it before any verb is asked; it stands here to be found
    app.add_option("--server", taken,
                   "Do it at this server of berth's (BERTH_SERVER; its key in BERTH_API_KEY)")
        ->type_name("URL")
        ->group("Common");
}

std::optional<int> parse(CLI::App& app, Common& common, int argc, char** argv, int usage_code)
{
    const auto refuse = [&](std::string why) {
        return report({.code = Code::Invalid, .message = std::move(why)}, common, usage_code);
    };
    if (auto why = empty_word(app, argc, argv); !why.empty()) {
        common.json = asks_json(argc, argv);
        return refuse(std::move(why));
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        std::cout << app.help();
        return 0;
    } catch (const CLI::CallForAllHelp&) {
        std::cout << app.help();
        return 0;
    } catch (const CLI::ParseError& e) {
        if (asks_json(argc, argv)) common.json = true; // a parse that failed has not set it
        return refuse(wrong_words(app, e, argc, argv));
    }
    if (auto why = empty_value(app); !why.empty()) return refuse(std::move(why));
    if (common.color != "auto" && common.color != "always" && common.color != "never")
        return refuse(fmt::format("bad --color '{}': auto, always or never", printable(common.color, 40)));
    if (auto configured = configure_log(common); !configured)
        return report(configured.error(), common, usage_code);
    return std::nullopt;
}

Result<std::string> state_path(const Common& common)
{
    std::string path = common.data;
    if (path.empty()) {
        BERTH_TRY(path, local::default_state_path());
    }
    if (path.front() == '/') return path;
    char here[4096];
    if (::getcwd(&here[0], sizeof here) == nullptr) return fail_errno("finding the working directory");
    return fmt::format("{}/{}", &here[0], path);
}

int report(const Error& error, const Common& common, std::optional<int> exit)
{
    const bool unheard = error.sys.value() == EPIPE && reader_gone();
    if (common.json)
        std::cout << json::dump(json::error_document(error)) << std::endl;
    else if (!unheard)
        say(error.line());
    return exit.value_or(exit_code(error.code));
}

void say(std::string_view line)
{
    std::string text = fmt::format("berth: {}\n", line);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text.data(), text.size());
}

bool talkative() { return ::isatty(STDERR_FILENO) == 1; }

std::vector<std::string> option_names(const CLI::App& app)
{
    std::vector<std::string> names;
    for (const auto* option : app.get_options()) {
        for (const auto& name : option->get_lnames()) names.push_back("--" + name);
        for (const auto& name : option->get_snames()) names.push_back("-" + name);
    }
    return names;
}

bool gathering(const CLI::App& app)
{
    if (g_shapes == nullptr) return false;
    auto& shape = g_shapes->back();
    shape.options = option_names(app);
    for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
        shape.words.push_back(sub->get_name());
        for (auto& name : option_names(*sub))
            if (std::ranges::find(shape.options, name) == shape.options.end()) shape.options.push_back(name);
    }
    return true;
}

std::vector<VerbShape> verb_shapes()
{
    std::vector<VerbShape> shapes;
    g_shapes = &shapes;
    for (const auto& verb : verbs()) {
        if (verb.hidden) continue;
        shapes.push_back({.name = std::string(verb.name), .summary = std::string(verb.summary)});
        std::string name(verb.name);
        char* argv[] = {name.data(), nullptr};
        verb.run(1, &argv[0]);
    }
    g_shapes = nullptr;
    return shapes;
}

} // namespace berth::cli
