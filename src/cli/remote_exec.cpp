#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include <CLI/CLI.hpp>

#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/kill_options.hpp"
#include "cli/remote.hpp"
#include "cli/session.hpp"
#include "sys/pty.hpp"

namespace berth::cli::remote {

namespace {

using namespace std::chrono_literals;

constexpr auto kBreath = 200ms;

/// What has a number is done once, however often it is asked for: a server that is away is waited for as long
/// as the output is.
Result<json::Object> ask(const std::stop_token& stop, Server& server, const std::string& method,
                         const std::string& path, const std::string& body = {})
{
    for (;;) {
        auto told = server.call(method, path, body);
        const bool away =
            !told && (told.error().code == Code::Unavailable || told.error().code == Code::DeadlineExceeded);
        if (!away || stop.stop_requested()) return told;
        std::this_thread::sleep_for(kBreath);
    }
}

/// Our input to the command's, until either ends.
void feed_input(const std::stop_token& stop, Server& server, const std::string& exec)
{
    std::uint64_t write = 0;
    std::string rest;
    while (!stop.stop_requested()) {
        pollfd in{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        if (rest.empty()) {
            if (::poll(&in, 1, static_cast<int>(kBreath.count())) <= 0) continue;
            rest.resize(std::size_t{64} << 10);
            const auto n = ::read(STDIN_FILENO, rest.data(), rest.size());
            rest.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
            if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            if (n <= 0) {
                (void)ask(stop, server, "DELETE", fmt::format("{}/input?write={}", exec, ++write));
                return;
            }
        }
        const auto told = ask(stop, server, "POST", fmt::format("{}/input?write={}", exec, ++write), rest);
        if (!told) return; // it reads no more
        const auto* const taken = told->if_contains("taken");
        const auto count = taken != nullptr && taken->is_int64() ? taken->get_int64() : 0;
        rest.erase(0, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
        if (!rest.empty()) std::this_thread::sleep_for(kBreath / 4);
    }
}

json::Object size_json(std::uint16_t rows, std::uint16_t columns)
{
    json::Object out;
    out["rows"] = rows;
    out["columns"] = columns;
    return out;
}

/// What we are asked to do the command is asked; for the third time it is killed.
void pass_signals(const std::stop_token& stop, Server& server, const std::string& exec, const sigset_t& set)
{
    for (int seen = 0; !stop.stop_requested();) {
        const timespec breath{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kBreath).count()};
        const int signal = ::sigtimedwait(&set, nullptr, &breath);
        if (signal <= 0) continue;
        if (signal == SIGWINCH) {
            if (const auto size = sys::window_size(STDIN_FILENO))
                (void)server.call("POST", exec + "/size", json::dump(size_json(size->rows, size->columns)));
            continue;
        }
        if (++seen < 3) {
            json::Object body;
            body["signal"] = signal;
            (void)server.call("POST", exec + "/signal", json::dump(body));
        } else {
            (void)server.call("DELETE", exec + "?grace_seconds=0");
        }
    }
}

struct ExecWish {
    Common common;
    ExecOptions exec;
    std::string ref;
    std::vector<std::string> command;
    bool detach = false;
};

Result<json::Object> start(Server& server, const std::string& sandbox, const ExecSpec& spec)
{
    json::Object body;
    json::Array argv;
    for (const auto& word : spec.argv) argv.emplace_back(word);
    body["argv"] = std::move(argv);
    json::Object env;
    for (const auto& [name, value] : spec.env) env[name] = value;
    body["env"] = std::move(env);
    if (!spec.cwd.empty()) body["workdir"] = spec.cwd;
    if (!spec.user.empty()) body["user"] = spec.user;
    body["stdin"] = spec.input == ExecSpec::Stdin::Open;
    if (spec.terminal) body["terminal"] = size_json(spec.terminal->rows, spec.terminal->columns);
    if (spec.timeout) body["timeout_seconds"] = std::chrono::duration<double>(*spec.timeout).count();
    if (const auto bad = json::not_utf8(json::Value(body)))
        return fail(Code::Invalid, "{} is not UTF-8, which a server cannot be told", *bad);
    return server.call("POST", sandbox + "/execs", json::dump(body));
}

/// Stays with a command until it is over.
Result<int> attend(Server& server, const ExecSpec& spec, const std::string& exec, bool json,
                   const sigset_t& set)
{
    std::optional<sys::RawTerminal> raw;
    if (spec.terminal) {
        BERTH_TRY(auto entered, sys::RawTerminal::enter(STDIN_FILENO));
        raw.emplace(std::move(entered));
    }
    std::jthread input;
    if (spec.input == ExecSpec::Stdin::Open || spec.terminal)
        input = std::jthread([&](const std::stop_token& stop) { feed_input(stop, server, exec); });
    const std::jthread signals([&](const std::stop_token& stop) { pass_signals(stop, server, exec, set); });
    BERTH_TRY(const auto ended, follow(server, {.exec = exec, .after = {}}, pass_on(json)));
    return ended.timed_out ? kTimedOut : ended.code;
}

Result<int> run(Server& server, const Common& common, const std::string& ref, const ExecSpec& spec,
                bool detach)
{
    BERTH_TRY(const auto sandbox, server.path_of(ref));
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    if (spec.terminal) ::sigaddset(&set, SIGWINCH);
    if (!detach) ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    BERTH_TRY(const auto started, start(server, sandbox, spec));
    const auto id = text_of(started, "id");
    if (!common.json) say_unless_attached(started, text_of(started, "sandbox"));
    if (detach) return common.json ? print_document(started) : print(id + "\n");
    if (common.json) {
        // The line that is the first here, too.
        json::Object first{{"event", "exec"}, {"exec", id}};
        for (const auto& member : started)
            if (member.key() != "id") first[member.key()] = member.value();
        if (const int failed = print_document(first); failed != 0) return failed;
    }
    return attend(server, spec, sandbox + "/execs/" + http_client::url_encode(id), common.json, set);
}

Result<int> run(Server& server, const ExecWish& o)
{
    if (o.command.empty()) return fail(Code::Invalid, "no command: berth exec {} -- CMD…", o.ref);
    if (!o.exec.policy.empty() || !o.exec.log_limit.empty())
        return fail(Code::Unsupported, "--policy and --log-limit do not work with a server");
    BERTH_TRY(const auto spec, exec_spec(o.exec, o.command, o.detach ? Company::Leaves : Company::Stays));
    return run(server, o.common, o.ref, spec, o.detach);
}

struct LogsWish {
    Common common;
    std::string ref, exec;
    std::optional<std::uint64_t> after;
    bool follow = false;
};

Result<int> show_log(Server& server, const LogsWish& o)
{
    BERTH_TRY(const auto sandbox, server.path_of(o.ref));
    BERTH_TRY(const auto id, exec_of(server, sandbox, o.exec));
    FollowWish wish{
        .exec = sandbox + "/execs/" + http_client::url_encode(id), .after = o.after, .wait = o.follow};
    BERTH_TRY([[maybe_unused]] const auto seen, follow(server, wish, pass_on(o.common.json)));
    return 0;
}

Result<int> end_exec(Server& server, const KillOptions& o)
{
    BERTH_TRY(const auto how, read_kill(o));
    BERTH_TRY(const auto sandbox, server.path_of(o.ref));
    BERTH_TRY(const auto id, exec_of(server, sandbox, o.exec));
    const std::string path = sandbox + "/execs/" + http_client::url_encode(id);
    json::Object out;
    if (how.signal) {
        BERTH_TRY(const auto known, server.call("GET", path));
        const auto* const running = known.if_contains("running");
        if (running == nullptr || !running->is_bool() || !running->get_bool())
            return fail(Code::Conflict, "{} has ended: {}", id, printable(text_of(known, "outcome"), 80));
        out["signal"] = *how.signal;
        BERTH_CHECK(server.call("POST", path + "/signal", json::dump(out)));
    } else {
        const std::chrono::duration<double> grace = how.grace;
        BERTH_CHECK(server.call("DELETE", fmt::format("{}?grace_seconds={}", path, grace.count())));
        BERTH_TRY(const auto known, server.call("GET", path));
        const auto* const outcome = known.if_contains("outcome");
        out["outcome"] = outcome != nullptr ? *outcome : json::Value(nullptr);
    }
    if (!o.common.json) return print(id + "\n");
    out["id"] = id;
    out["sandbox"] = sandbox.substr(sandbox.rfind('/') + 1);
    return print_document(out);
}

} // namespace

Result<std::string> exec_of(Server& server, const std::string& sandbox, const std::string& ref)
{
    BERTH_TRY(const auto listed, server.call("GET", sandbox + "/execs"));
    std::vector<std::string> found;
    if (const auto* const all = listed.if_contains("execs"); all != nullptr && all->is_array())
        for (const auto& one : all->get_array()) {
            const auto id = one.is_object() ? text_of(one.get_object(), "id") : std::string{};
            if (id == ref) return id;
            if (id.starts_with(ref) || id.starts_with("exec_" + ref)) found.push_back(id);
        }
    if (found.empty()) return fail(Code::NotFound, "there is no command '{}'", printable(ref, 60));
    if (found.size() > 1 && !ref.empty())
        return fail(Code::Conflict, "'{}' stands for {} commands", printable(ref, 60), found.size());
    return found.back();
}

int exec_verb(Server& server, int argc, char** argv)
{
    CLI::App app(
        "Run a command in a sandbox on the server. Its exit code is ours, as with berth exec here; the\n"
        "command outlives us and the connection.\n\n"
        "Example:\n  berth exec mybox --server http://127.0.0.1:7600 -- make test\n",
        "berth exec");
    ExecWish o;
    app.add_option("sandbox", o.ref, "The sandbox")->type_name("REF")->required();
    app.add_option("command", o.command, "The command, after --")->type_name("CMD...");
    add_exec_options(app, o.exec);
    app.add_flag("-d,--detach", o.detach, "Print the id of the exec and return at once");
    add_common(app, o.common);
    if (const auto done = parse_with_command(app, o.common, o.ref, o.command, argc, argv)) return *done;
    const auto code = run(server, o);
    return code ? *code : report(code.error(), o.common, start_failure_code(code.error()));
}

int shell_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Open a login shell in a sandbox on the server; its exit code is ours.\n\n"
                 "Example:\n  berth shell mybox --server http://127.0.0.1:7600\n",
                 "berth shell");
    Common common;
    std::string ref, user;
    app.add_option("sandbox", ref, "The sandbox")->type_name("REF")->required();
    app.add_option("-u,--user", user, "User inside: a name or uid[:gid]")->type_name("USER");
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv, kOwnFailure)) return *done;
    const auto open = [&]() -> Result<int> {
        BERTH_TRY(const auto spec, shell_spec(ref, user));
        return run(server, common, ref, spec, false);
    };
    const auto code = open();
    return code ? *code : report(code.error(), common, start_failure_code(code.error()));
}

int kill_verb(Server& server, int argc, char** argv)
{
    CLI::App app(
        "End one command of a sandbox on the server: TERM to it and its group, and after a grace KILL to it\n"
        "and to everything it started. With --signal only that signal is sent.\n\n"
        "Example:\n  berth kill mybox exec_01jd7f3 --server http://127.0.0.1:7600\n",
        "berth kill");
    KillOptions o;
    add_kill_options(app, o);
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = end_exec(server, o);
    return code ? *code : report(code.error(), o.common);
}

int logs_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Show what a command on the server has printed.\n\n"
                 "Example:\n  berth logs mybox --follow --server http://127.0.0.1:7600\n",
                 "berth logs");
    LogsWish o;
    std::uint64_t after = 0;
    app.add_option("sandbox", o.ref, "The sandbox")->type_name("REF")->required();
    app.add_option("exec", o.exec, "The command (default: the newest)")->type_name("EXEC");
    app.add_flag("-f,--follow", o.follow, "Go on until it is over");
    auto* from = app.add_option("--after", after, "Only what comes behind this event")->type_name("N");
    add_common(app, o.common);
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    if (from->count() > 0) o.after = after;
    const auto code = show_log(server, o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli::remote
