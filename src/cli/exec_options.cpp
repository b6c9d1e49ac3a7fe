#include "cli/exec_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>

#include <CLI/CLI.hpp>

#include "base/ids.hpp"
#include "base/shell_quoted.hpp"
#include "base/strings.hpp"
#include "cli/session.hpp"
#include "cli/streams.hpp"
#include "policy/document.hpp"
#include "sys/pty.hpp"

namespace berth::cli {

void add_exec_options(CLI::App& app, ExecOptions& o)
{
    app.add_flag("-i,--interactive", o.interactive,
                 "Pass stdin on (the default); with --detach or --yield keep it open for berth input");
    app.add_flag("-t,--tty", o.terminal, "Give the command a terminal");
    app.add_option("-e,--env", o.env, "Set NAME=VALUE, or pass NAME on without showing its value to others")
        ->type_name("NAME[=VALUE]")
        ->allow_extra_args(false);
    app.add_option("-w,--workdir", o.workdir, "Working directory inside")->type_name("DIR");
    app.add_option("-u,--user", o.user, "User inside: a name or uid[:gid]")->type_name("USER");
    app.add_option("--timeout", o.timeout, "Kill it and everything it started after this time, exit 124")
        ->type_name("TIME");
    app.add_option("--log-limit", o.log_limit, "Keep at most this much of each stream (default 64MiB)")
        ->type_name("SIZE");
    app.add_option("--policy", o.policy, "A policy narrower than the sandbox's: a preset or a file")
        ->type_name("NAME|FILE");
}

namespace {

/// How many of the words are options and their values, which stand first.
std::size_t leading_options(const CLI::App& app, const std::vector<std::string>& words)
{
    std::size_t count = 0;
    while (count < words.size() && words[count].starts_with('-')) {
        const auto* const option = app.get_option_no_throw(words[count]);
        count += option != nullptr && option->get_expected_max() > 0 ? 2 : 1;
    }
    return std::min(count, words.size());
}

std::string shell_line(std::span<const std::string> words)
{
    std::string out;
    for (const auto& word : words) out += " " + shell_quoted(word);
    return out;
}

/// A command that begins with a dash without -- before it was meant as an option, and nobody has run it yet:
/// help is shown, others are refused with what to type.
std::optional<int> options_behind(const CLI::App& app, const Common& common, const std::string& ref,
                                  const std::vector<std::string>& command)
{
    if (command.empty() || !command.front().starts_with('-')) return std::nullopt;
    if (command.front() == "--help" || command.front() == "-h") return print(app.help());
    const auto split = leading_options(app, command);
    const std::span<const std::string> words(command);
    const auto rest = split < words.size() ? shell_line(words.subspan(split)) : " CMD…";
    auto told = common;
    told.json = told.json || std::ranges::find(words.first(split), "--json") != words.first(split).end();
    return report({.code = Code::Invalid,
                   .message = fmt::format(
                       "options stand before the sandbox, or -- behind them:{}",
                       printable(fmt::format(" {}{} {} --{}", app.get_name(), shell_line(words.first(split)),
                                             shell_quoted(ref), rest),
                                 400))},
                  told, kOwnFailure);
}

} // namespace

std::optional<int> parse_with_command(CLI::App& app, Common& common, const std::string& ref,
                                      std::vector<std::string>& command, int argc, char** argv)
{
    char** const dashes =
        std::find_if(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
    const auto own = static_cast<int>(dashes - argv);
    app.positionals_at_end(own == argc);
    if (const auto done = parse(app, common, own, argv, kOwnFailure)) return done;
    if (own == argc) return options_behind(app, common, ref, command);
    if (!command.empty())
        return report({.code = Code::Invalid,
                       .message = fmt::format("unexpected word '{}' before --: {} [OPTIONS] REF -- CMD…",
                                              printable(command.front(), 60), app.get_name())},
                      common, kOwnFailure);
    command.assign(dashes + 1, argv + argc);
    return std::nullopt;
}

Result<std::map<std::string, std::string>> parse_env(const std::vector<std::string>& words)
{
    std::map<std::string, std::string> out;
    for (const auto& text : words) {
        const auto equals = text.find('=');
        if (text.empty() || equals == 0)
            return fail(Code::Invalid, "bad environment variable '{}': write it like NAME=value",
                        printable(text, 80));
        if (equals != std::string::npos) {
            out[text.substr(0, equals)] = text.substr(equals + 1);
            continue;
        }
        const char* value = std::getenv(text.c_str()); // NOLINT(concurrency-mt-unsafe): before any thread
        if (value == nullptr)
            return fail(Code::NotFound, "environment variable {} is not set here", printable(text, 80));
        out[text] = value;
    }
    return out;
}

Result<ExecSpec> exec_spec(const ExecOptions& o, std::vector<std::string> command, Company company)
{
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = std::move(command);
    exec.cwd = o.workdir;
    exec.user = o.user;
    BERTH_TRY(exec.env, parse_env(o.env));
    if (company == Company::Stays ? has_stdin() : o.interactive) exec.input = ExecSpec::Stdin::Open;
    if (!o.timeout.empty()) {
        BERTH_TRY(exec.timeout, parse_duration(o.timeout));
        if (exec.timeout->count() <= 0) return fail(Code::Invalid, "--timeout must be longer than zero");
    }
    if (!o.log_limit.empty()) {
        BERTH_TRY(exec.log_limit, parse_bytes(o.log_limit));
    }
    if (!o.policy.empty()) {
        BERTH_TRY(exec.policy, policy::load(o.policy));
    }
    if (o.terminal) {
        if (company == Company::Stays && ::isatty(STDIN_FILENO) != 1)
            return fail(Code::Invalid, "-t needs a terminal on stdin: leave it out in scripts");
        const auto size = sys::window_size(STDIN_FILENO);
        exec.terminal = size ? TerminalSize{.rows = size->rows, .columns = size->columns} : TerminalSize{};
    }
    BERTH_CHECK(validate(exec));
    return exec;
}

Result<ExecSpec> shell_spec(const std::string& ref, const std::string& user)
{
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
        return fail(Code::Invalid,
                    "a shell needs a terminal: in scripts use berth exec {} -- sh -c 'COMMANDS'",
                    printable(ref, 80));
    // One exec that becomes the shell: there is nothing to look up before.
    constexpr const char* kShell = "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l";
    const ExecOptions how{.user = user, .terminal = true};
    return exec_spec(how, {"/bin/sh", "-c", kShell}, Company::Stays);
}

Result<int> parse_signal(std::string_view text)
{
    if (const auto number = parse_int(text, 1, SIGRTMAX, "signal")) return static_cast<int>(*number);
    const std::string_view name = text.starts_with("SIG") ? text.substr(3) : text;
    for (int signo = 1; signo < SIGRTMIN; ++signo)
        if (const char* const known = ::sigabbrev_np(signo); known != nullptr && name == known) return signo;
    return fail(Code::Invalid, "no signal '{}': a name like TERM, or a number", printable(text, 40));
}

void say_unless_attached(const Acquired& acquired)
{
    if (acquired.tier != Tier::Attached) say_outcome(acquired);
}

int start_failure_code(const Error& error)
{
    if (error.message.starts_with("command not found")) return 127;
    if (error.message.starts_with("cannot execute")) return 126;
    return kOwnFailure;
}

} // namespace berth::cli
