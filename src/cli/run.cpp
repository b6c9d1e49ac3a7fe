#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include <CLI/CLI.hpp>

#include "backend/local/one_shot.hpp"
#include "backend/registry.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/asked_root.hpp"
#include "cli/attended_exec.hpp"
#include "cli/event_json.hpp"
#include "cli/progress.hpp"
#include "cli/sandbox_options.hpp"
#include "cli/session.hpp"
#include "cli/streams.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/begins_with.hpp"
#include "lifecycle/client.hpp"
#include "sys/pty.hpp"

namespace berth::cli {

namespace {

constexpr int kOwnFailure = 125;
constexpr int kTimedOut = 124;

struct RunOptions {
    Common common;
    SandboxOptions sandbox;
    std::string timeout;
    std::string log_limit;
    bool interactive = false;
    bool terminal = false;
    std::vector<std::string> command;
};

void add_options(CLI::App& app, RunOptions& o)
{
    app.add_option("command", o.command, "The command, after --")->type_name("CMD...");
    add_sandbox_options(app, o.sandbox);
    app.add_option("--timeout", o.timeout, "Kill everything after this time, exit 124")->type_name("TIME");
    app.add_option("--log-limit", o.log_limit, "Pass on at most this much of each output stream")
        ->type_name("SIZE");
    app.add_flag("-i,--interactive", o.interactive, "Pass stdin on (the default unless stdin is closed)");
    app.add_flag("-t,--tty", o.terminal, "Give the command a terminal");
    add_common(app, o.common);
}

Result<ExecSpec> exec_spec(const RunOptions& o)
{
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = o.command;
    exec.input = has_stdin() ? ExecSpec::Stdin::Open : ExecSpec::Stdin::None;
    if (!o.timeout.empty()) {
        BERTH_TRY(exec.timeout, parse_duration(o.timeout));
        if (exec.timeout->count() <= 0) return fail(Code::Invalid, "--timeout must be longer than zero");
    }
    exec.log_limit = Bytes{~0ull};
    if (!o.log_limit.empty()) {
        BERTH_TRY(exec.log_limit, parse_bytes(o.log_limit));
    }
    if (o.terminal) {
        if (::isatty(STDIN_FILENO) != 1)
            return fail(Code::Invalid, "-t needs a terminal on stdin: leave it out in scripts");
        const auto size = sys::window_size(STDIN_FILENO);
        exec.terminal = size ? TerminalSize{.rows = size->rows, .columns = size->columns} : TerminalSize{};
    }
    return exec;
}

/// Says once, on a terminal, that nothing of the current directory is visible inside.
void hint_workspace(const local::StateDir& state, const SandboxSpec& spec)
{
    if (!talkative() || !spec.mounts.empty() || spec.root.kind == Template::Kind::Live) return;
    const UniqueFd made(
        ::openat(state.fd(), "hinted-workspace", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (made) say("the sandbox sees nothing of this directory; --workspace . shows it (said once)");
}

int finish(const local::RunOutcome& outcome, const RunOptions& o, const ExecSpec& exec)
{
    for (const auto& note : outcome.notes) say(note);
    if (outcome.dropped > 0)
        say(fmt::format("{} bytes of output beyond --log-limit were dropped", outcome.dropped));
    for (const auto& what : outcome.struck) {
        if (o.common.json)
            (void)write_all(STDOUT_FILENO, limit_line(what));
        else
            say(what);
    }
    if (outcome.timed_out && !outcome.by_wall_time) {
        const Error error{
            .code = Code::DeadlineExceeded,
            .message = fmt::format("timed out after {}: the command and everything it started were killed",
                                   show(*exec.timeout))};
        return report(error, o.common, kTimedOut);
    }
    if (outcome.timed_out) return kTimedOut;
    // The command may have done its work; whoever reads its output must not take a part for the whole.
    if (outcome.unwritten != 0) {
        const std::error_code sys(outcome.unwritten, std::generic_category());
        return report({.code = Code::Internal, .message = "writing the output: " + sys.message(), .sys = sys},
                      o.common, kOwnFailure);
    }
    return outcome.status.shell_code();
}

/// On a backend without a way of its own, or from a template that was built: a sandbox is made, used once and
/// removed. Whatever kills us on the way leaves one that is idle soon, whatever runs in it, and idle ones of
/// this kind are destroyed by berth gc and by any server.
Result<int> run_elsewhere(const RunOptions& o, SandboxSpec spec, ExecSpec exec)
{
    BERTH_TRY(const auto berth, open_berth(o.common));
    auto& lifecycle = berth->lifecycle();
    AcquireRequest request;
    request.spec = std::move(spec);
    request.backend = o.sandbox.backend;
    request.spec.labels[std::string(kClientLabel)] = "run";
    request.retention = {.idle = std::chrono::seconds(60), .on_idle = OnIdle::Destroy, .lifetime = {}};
    Progress progress;
    request.progress = [&](const std::string& what, std::uint64_t have, std::uint64_t of) {
        progress.tell(what, have, of);
    };
    BERTH_TRY(const auto made, berth->run(lifecycle.acquire(std::move(request))));
    BERTH_TRY(const auto alive, take_client(berth->data(), made.record.id()));
    for (const auto& note : made.notes) say(note);
    auto code = attended_exec(*berth, o.common, made.record.id(), std::move(exec));
    if (auto gone = berth->run(lifecycle.destroy(made.record.id())); !gone)
        say(fmt::format("{} is left: {} (berth rm {})", made.record.id(), gone.error().line(),
                        made.record.id()));
    return code;
}

Result<int> run(const RunOptions& o)
{
    BERTH_TRY(auto spec, asked_spec(o.common, o.sandbox));
    BERTH_TRY(auto exec, exec_spec(o));
    BERTH_CHECK(validate(exec));
    if (o.sandbox.backend != "local" || spec.labels.contains(std::string(kBeginsWithLabel))) {
        BERTH_CHECK(backends().check(o.sandbox.backend)); // before anything of ours is there
        // What a kept sandbox's command prints is in its log, which has a bound; it waits for us there.
        if (o.sandbox.backend == "local" && o.log_limit.empty()) exec.log_limit = ExecSpec{}.log_limit;
        return run_elsewhere(o, std::move(spec), std::move(exec));
    }
    spec.id = make_sandbox_id(system_clock());
    BERTH_TRY(const auto path, state_path(o.common));
    BERTH_TRY(const auto state, local::StateDir::open(path));
    hint_workspace(state, spec);

    local::RunStreams streams;
    streams.in = STDIN_FILENO;
    int unwritten = 0;
    bool unheard = false;
    streams.unheard = &unheard;
    const auto tell = [&](const ExecEvent& event, bool timed_out) {
        const auto written = write_all(STDOUT_FILENO, event_line(event, timed_out));
        if (written) return;
        unheard = true;
        if (unwritten == 0 && written.error().sys.value() != EPIPE) unwritten = written.error().sys.value();
    };
    std::vector<ExecEvent> last; // why it ended is known a moment later
    if (o.common.json)
        streams.on_event = [&](const ExecEvent& event) {
            if (event.kind == ExecEvent::Kind::Exit || event.kind == ExecEvent::Kind::Closed)
                last.push_back(event);
            else
                tell(event, false);
        };
    std::optional<sys::RawTerminal> raw;
    if (exec.terminal) {
        BERTH_TRY(auto entered, sys::RawTerminal::enter(STDIN_FILENO));
        raw.emplace(std::move(entered));
    }
    auto outcome = local::run_one_shot(state, spec, exec, streams, [](std::string_view what) {
        if (talkative()) say(what);
    });
    raw.reset();
    for (const auto& event : last)
        tell(event, outcome && outcome->timed_out && event.status.signal() == SIGKILL);
    if (!outcome) return std::unexpected(std::move(outcome).error());
    if (unwritten != 0) outcome->unwritten = unwritten;
    return finish(*outcome, o, exec);
}

} // namespace

int run_verb(int argc, char** argv)
{
    CLI::App app(
        "Run one command in a throw-away sandbox. Its exit code is ours: 128+n for a signal, 124 for our\n"
        "timeout, 125 when berth itself failed, 126/127 as a shell has them.\n\n"
        "Example:\n"
        "  berth run --workspace . --memory 2GiB --timeout 10m -- make test\n",
        "berth run");
    RunOptions options;
    add_options(app, options);
    app.positionals_at_end();
    if (gathering(app)) return 0;
    if (const auto done = parse(app, options.common, argc, argv, kOwnFailure)) return *done;
    const auto code = run(options);
    if (code) return *code;
    // A command that could not be started is told as a shell tells it.
    const Error& error = code.error();
    const int exit = error.message.starts_with("command not found") ? 127
                     : error.message.starts_with("cannot execute")  ? 126
                                                                    : kOwnFailure;
    return report(error, options.common, exit);
}

} // namespace berth::cli
