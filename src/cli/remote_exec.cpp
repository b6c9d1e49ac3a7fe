#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include <CLI/CLI.hpp>

#include "base/encoding.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/remote.hpp"
#include "cli/session.hpp"

namespace berth::cli::remote {

namespace {

using namespace std::chrono_literals;

constexpr auto kBreath = 200ms;
constexpr auto kSilence = 60s; // a stream tells every 15 s that it lives
constexpr auto kMoment = 1s;
constexpr int kMostBreaks = 20; // one after the other, without an event between
constexpr std::size_t kLargestEvent = std::size_t{16} << 20;

std::string text_of(const json::Object& object, std::string_view name)
{
    const auto* const found = object.if_contains(name);
    return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string{};
}

/// Server-sent events out of their bytes.
class EventReader {
public:
    explicit EventReader(std::function<Status(const json::Object&)> on_event) : on_event_(std::move(on_event))
    {
    }

    Status feed(std::string_view bytes)
    {
        pending_ += bytes;
        if (pending_.size() > kLargestEvent) return fail(Code::Invalid, "an event of the server has no end");
        for (std::size_t end = 0; (end = pending_.find("\n\n")) != std::string::npos;) {
            const auto block = pending_.substr(0, end);
            pending_.erase(0, end + 2);
            for (const auto& line : split(block, '\n')) {
                if (!line.starts_with("data: ")) continue;
                BERTH_TRY(const auto document, json::parse(std::string_view(line).substr(6)));
                if (document.is_object()) BERTH_CHECK(on_event_(document.get_object()));
            }
        }
        return {};
    }

private:
    std::function<Status(const json::Object&)> on_event_;
    std::string pending_;
};

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
                (void)server.call("DELETE", fmt::format("{}/input?write={}", exec, ++write));
                return;
            }
        }
        const auto told = server.call("POST", fmt::format("{}/input?write={}", exec, ++write), rest);
        if (!told) return; // it reads no more
        const auto* const taken = told->if_contains("taken");
        const auto count = taken != nullptr && taken->is_int64() ? taken->get_int64() : 0;
        rest.erase(0, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
        if (!rest.empty()) std::this_thread::sleep_for(kBreath / 4);
    }
}

/// What we are asked to do the command is asked; for the third time it is killed.
void pass_signals(const std::stop_token& stop, Server& server, const std::string& exec, const sigset_t& set)
{
    for (int seen = 0; !stop.stop_requested();) {
        const timespec breath{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kBreath).count()};
        const int signal = ::sigtimedwait(&set, nullptr, &breath);
        if (signal <= 0) continue;
        if (++seen < 3) {
            json::Object body;
            body["signal"] = signal;
            (void)server.call("POST", exec + "/signal", json::dump(body));
        } else {
            (void)server.call("DELETE", exec);
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
    if (spec.timeout) body["timeout_seconds"] = std::chrono::duration<double>(*spec.timeout).count();
    if (const auto bad = json::not_utf8(json::Value(body)))
        return fail(Code::Invalid, "{} is not UTF-8, which a server cannot be told", *bad);
    return server.call("POST", sandbox + "/execs", json::dump(body));
}

Result<int> run(Server& server, const ExecWish& o)
{
    if (o.command.empty()) return fail(Code::Invalid, "no command: berth exec {} -- CMD…", o.ref);
    if (o.exec.terminal || !o.exec.policy.empty() || !o.exec.log_limit.empty())
        return fail(Code::Unsupported, "--tty, --policy and --log-limit do not work with a server");
    BERTH_TRY(const auto spec, exec_spec(o.exec, o.command, o.detach ? Company::Leaves : Company::Stays));
    BERTH_TRY(const auto sandbox, server.path_of(o.ref));
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    if (!o.detach) ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    const auto begun = system_clock().steady();
    BERTH_TRY(const auto started, start(server, sandbox, spec));
    const auto id = text_of(started, "id");
    if (o.detach) return o.common.json ? print_document(started) : print(id + "\n");
    const std::string exec = sandbox + "/execs/" + http_client::url_encode(id);
    std::jthread input;
    if (spec.input == ExecSpec::Stdin::Open)
        input = std::jthread([&](const std::stop_token& stop) { feed_input(stop, server, exec); });
    const std::jthread signals([&](const std::stop_token& stop) { pass_signals(stop, server, exec, set); });
    const auto on_event = pass_on(o.common.json);
    BERTH_TRY(const auto ended, follow(server, {.exec = exec, .after = {}}, on_event));
    if (spec.timeout && ended.signal == SIGKILL && system_clock().steady() - begun >= *spec.timeout)
        return kTimedOut;
    return ended.code;
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
    BERTH_TRY(const auto listed, server.call("GET", sandbox + "/execs"));
    std::string id;
    if (const auto* const all = listed.if_contains("execs"); all != nullptr && all->is_array())
        for (const auto& one : all->get_array()) {
            const auto known = one.is_object() ? text_of(one.get_object(), "id") : std::string{};
            if (o.exec.empty() || known == o.exec || known.starts_with("exec_" + o.exec)) id = known;
        }
    if (id.empty()) return fail(Code::NotFound, "sandbox {} has no such command", printable(o.ref, 60));
    FollowWish wish{
        .exec = sandbox + "/execs/" + http_client::url_encode(id), .after = o.after, .wait = o.follow};
    BERTH_TRY([[maybe_unused]] const auto seen, follow(server, wish, pass_on(o.common.json)));
    return 0;
}

} // namespace

OnEvent pass_on(bool json)
{
    return [json](const json::Object& event) -> Status {
        if (json) return write_all(STDOUT_FILENO, json::dump(event) + "\n");
        const auto kind = text_of(event, "event");
        if (kind != "stdout" && kind != "stderr" && kind != "pty") return {};
        const auto bytes = base64_decode(text_of(event, "data"));
        if (!bytes) return fail(Code::Unavailable, "the server tells bytes that are none");
        return write_all(kind == "stderr" ? STDERR_FILENO : STDOUT_FILENO, *bytes);
    };
}

Result<Followed> follow(Server& server, const FollowWish& wish, const OnEvent& on_event)
{
    Followed out{.after = wish.after};
    Status mine; // a failure that is not the connection's
    bool moved = false;
    const auto take = [&](const json::Object& event) -> Status {
        const auto* const number = event.if_contains("seq");
        if (number == nullptr || !number->is_int64()) {
            return mine = fail(Code::Unavailable, "the server says: {}", printable(json::dump(event), 200));
        }
        out.after = static_cast<std::uint64_t>(number->get_int64());
        moved = true;
        const auto kind = text_of(event, "event");
        if (const auto* const code = event.if_contains("code");
            kind == "exit" && code != nullptr && code->is_int64())
            out.code = static_cast<int>(code->get_int64());
        if (const auto* const signal = event.if_contains("signal");
            kind == "exit" && signal != nullptr && signal->is_int64()) {
            out.signal = static_cast<int>(signal->get_int64());
            out.code = 128 + *out.signal;
        }
        out.closed = out.closed || kind == "closed";
        return mine = on_event(event);
    };
    for (int breaks = 0; !out.closed;) {
        EventReader reader(take);
        moved = false;
        const auto target =
            out.after ? fmt::format("{}/events?after={}", wish.exec, *out.after) : wish.exec + "/events";
        const auto read = server.stream(
            target, [&](std::string_view bytes) { return reader.feed(bytes); },
            wish.wait ? std::chrono::milliseconds(kSilence) : std::chrono::milliseconds(kMoment));
        if (!mine) return std::unexpected(mine.error());
        if (out.closed || (!wish.wait && (moved || !read || out.after))) break;
        const bool lost =
            !read && read.error().code != Code::Unavailable && read.error().code != Code::DeadlineExceeded;
        breaks = moved ? 0 : breaks + 1;
        if (lost || breaks > kMostBreaks) {
            if (!read) return std::unexpected(read.error());
            break; // it ends again and again, and says nothing
        }
        std::this_thread::sleep_for(kBreath * std::max(breaks, 1));
    }
    return out;
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
    char** const dashes =
        std::find_if(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
    const auto own = static_cast<int>(dashes - argv);
    app.positionals_at_end(own == argc);
    if (const auto done = parse(app, o.common, own, argv, kOwnFailure)) return *done;
    if (own < argc) o.command.assign(dashes + 1, argv + argc);
    const auto code = run(server, o);
    return code ? *code : report(code.error(), o.common, start_failure_code(code.error()));
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
