#include "server/e2b/process_service.hpp"

#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "server/e2b/account.hpp"
#include "server/e2b/process_stream.hpp"
#include "server/e2b/rpc.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using connect::Failure;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kInputBreath = 5ms;
constexpr std::size_t kInputPiece = 32 * 1024;
constexpr auto kRemembered = 30s; // how long an end is told
constexpr auto kLookAgain = 1s;

SteadyTime now() { return system_clock().steady(); }

Failure failure(connect::Status status, std::string message)
{
    return {.status = status, .message = std::move(message)};
}

std::string words(const Selector& selector)
{
    if (const auto* const pid = std::get_if<std::uint32_t>(&selector)) return fmt::format("pid {}", *pid);
    if (const auto* const tag = std::get_if<std::string>(&selector)) return "tag " + printable(*tag, 60);
    return "nothing";
}

/// Numbers that grow, also over a restart of this server.
std::uint64_t first_write_id()
{
    return static_cast<std::uint64_t>(system_clock().now().time_since_epoch().count());
}

} // namespace

Task<bool> ProcessService::answer(EnvdCall& call, std::string_view method)
{
    forget_ended();
    if (method == "Start") {
        co_await start(call);
        co_return true;
    }
    if (method == "Connect") {
        co_await connect_to(call);
        co_return true;
    }
    if (method == "StreamInput") {
        co_await stream_input(call);
        co_return true;
    }
    if (method != "List" && method != "Update" && method != "SendInput" && method != "SendSignal" &&
        method != "CloseStdin")
        co_return false;
    std::string answer = "{}";
    const auto failed = co_await unary(call, method, answer);
    if (call.exchange.begun()) co_return true;
    if (failed)
        co_await send_failure(call.exchange, *failed);
    else
        co_await rpc::send_message(call.exchange, std::move(answer));
    co_return true;
}

/// Now and then: a sandbox may remember thousands, and each of its requests would look at all of them.
void ProcessService::forget_ended()
{
    const auto time = now();
    if (time < next_look_) return;
    next_look_ = time + kLookAgain;
    for (const auto& entry : sandboxes_.all())
        std::erase_if(entry->processes, [&](const auto& one) {
            return one.second->ended && time >= one.second->ended_at + kRemembered;
        });
}

/// Processes that an earlier server started and that still run.
Task<void> ProcessService::recall(EntryPtr entry)
{
    if (entry->processes_known) co_return;
    const auto where = co_await sandboxes_.backend(*entry);
    if (!where) co_return;
    auto running = co_await sandboxes_.ground().berth.lifecycle().settle_execs(entry->record);
    if (!running) co_return;
    const auto notes = co_await sandboxes_.notes().read(entry->id);
    for (const auto& exec : *running) {
        const auto pid = co_await (*where)->exec_pid(Sandboxes::handle(*entry), exec.id);
        if (!pid || entry->processes.contains(static_cast<std::uint32_t>(*pid))) continue;
        auto process = std::make_shared<Process>();
        process->exec = exec.id;
        process->pid = static_cast<std::uint32_t>(*pid);
        if (!exec.argv.empty()) process->config.cmd = exec.argv.front();
        for (std::size_t i = 1; i < exec.argv.size(); ++i) process->config.args.push_back(exec.argv[i]);
        if (!exec.cwd.empty()) process->config.cwd = exec.cwd;
        process->stdin_open = true; // where nobody knows: the keeper does, and says so
        process->write_id = first_write_id();
        if (const auto at = notes.find(exec.id); at != notes.end()) {
            const auto& note = at->second;
            process->tag = note.tag;
            process->pty = note.pty;
            process->stdin_open = note.stdin_open;
            if (note.deadline) process->deadline = now() + (*note.deadline - system_clock().now());
        }
        if (!process->tag && is_id(exec.id, "exec_")) process->tag = exec.id; // see launch()
        entry->processes[process->pid] = process;
        asio::co_spawn(co_await asio::this_coro::executor, mind_process(sandboxes_, entry, process),
                       asio::detached);
    }
    // Last: whoever asks meanwhile looks for himself, and finds those that are there already.
    entry->processes_known = true;
}

Task<void> ProcessService::begin()
{
    for (const auto& entry : sandboxes_.all()) {
        const auto notes = co_await sandboxes_.notes().read(entry->id);
        if (!notes.empty() && !entry->dying) co_await recall(entry);
    }
}

Task<ProcessService::Found> ProcessService::select(EnvdCall& call, const Selector& selector)
{
    co_await recall(call.entry);
    if (std::holds_alternative<std::monostate>(selector))
        co_return std::unexpected(
            failure(connect::Status::Unimplemented, "a process is named by pid or tag"));
    ProcessPtr found;
    for (const auto& [pid, process] : call.entry->processes) {
        if (const auto* const wanted = std::get_if<std::uint32_t>(&selector); wanted && *wanted == pid)
            co_return process;
        // The newest of a tag: ids of execs grow.
        if (const auto* const tag = std::get_if<std::string>(&selector); tag && process->tag == *tag)
            if (!found || process->exec > found->exec) found = process;
    }
    if (found) co_return found;
    co_return std::unexpected(
        failure(connect::Status::NotFound, fmt::format("process with {} not found", words(selector))));
}

Task<ProcessService::Found> ProcessService::launch(EnvdCall& call, StartRequest request)
{
    const auto user = co_await user_of(call);
    if (!user) co_return std::unexpected(user.error());
    auto& entry = *call.entry;
    ExecSpec spec;
    // A tag that could be the name of an exec becomes it: such a process is found by it after a restart too.
    const bool named = request.tag && is_id(*request.tag, "exec_");
    spec.id = named ? *request.tag : make_exec_id(system_clock());
    spec.argv.push_back(request.process.cmd);
    for (const auto& arg : request.process.args) spec.argv.push_back(arg);
    spec.env = {
        {"E2B_SANDBOX", "true"}, {"E2B_SANDBOX_ID", entry.id}, {"E2B_TEMPLATE_ID", entry.template_id}};
    for (const auto& [name, value] : entry.env) spec.env[name] = value;
    for (const auto& [name, value] : request.process.envs) spec.env[name] = value;
    // A template's own directory is for whoever names none; a path begins at the home, there too.
    std::string wanted = request.process.cwd.value_or("");
    if (wanted.empty()) wanted = entry.workdir;
    const auto cwd = resolve_path(*user, wanted);
    if (!cwd) co_return std::unexpected(cwd.error());
    spec.cwd = *cwd;
    spec.user = user->name;
    if (!user->login.empty()) name_user(spec, user->login, user->home);
    if (request.pty)
        spec.terminal = TerminalSize{.rows = request.pty->rows, .columns = request.pty->columns};
    else if (request.stdin_open)
        spec.input = ExecSpec::Stdin::Open;
    const auto timeout = rpc::timeout(call.exchange.head());
    if (!timeout) co_return std::unexpected(connect::failure_of(timeout.error()));

    auto process = std::make_shared<Process>();
    process->exec = spec.id;
    process->config = std::move(request.process);
    process->tag = std::move(request.tag);
    process->pty = request.pty.has_value();
    process->stdin_open = request.stdin_open;
    process->write_id = first_write_id();
    if (*timeout) process->deadline = now() + **timeout;
    ProcessNote note{.tag = process->tag, .pty = process->pty, .stdin_open = process->stdin_open};
    if (*timeout) note.deadline = system_clock().now() + **timeout;
    Status noted;
    const auto take_note = [&] { return noted = sandboxes_.notes().write(entry.id, spec.id, note); };
    const auto started = co_await sandboxes_.ground().berth.lifecycle().exec(
        entry.record, spec, {.first = take_note, .followed = true});
    if (!noted) co_return std::unexpected(connect::failure_of(noted.error()));
    if (!started) {
        co_await sandboxes_.notes().remove(entry.id, spec.id);
        const auto there = co_await call.backend.stat_file(call.handle, {.path = *cwd, .user = user->name});
        if (!there && there.error().code == Code::NotFound)
            co_return std::unexpected(
                failure(connect::Status::InvalidArgument, fmt::format("cwd '{}' does not exist", *cwd)));
        auto told = connect::failure_of(started.error());
        if (told.status != connect::Status::Unavailable &&
            told.status != connect::Status::ResourceExhausted &&
            told.status != connect::Status::Unimplemented)
            told.status = connect::Status::InvalidArgument;
        co_return std::unexpected(std::move(told));
    }
    const auto pid = co_await call.backend.exec_pid(call.handle, spec.id);
    static std::uint32_t made_up = 1u << 30; // where a backend has no numbers
    process->pid = pid ? static_cast<std::uint32_t>(*pid) : ++made_up;
    // One that runs keeps its number, and its place in lists.
    if (process->tag)
        std::erase_if(entry.processes,
                      [&](const auto& one) { return one.second->ended && one.second->tag == process->tag; });
    entry.processes[process->pid] = process;
    co_return process;
}

Task<void> ProcessService::start(EnvdCall& call)
{
    auto text = co_await rpc::stream_message(call.exchange);
    if (!text) co_return;
    auto request = read_start(*text);
    rpc::begin_stream(call.exchange);
    if (!request) {
        co_await rpc::end_stream(call.exchange, connect::failure_of(request.error()));
        co_return;
    }
    const auto turn = call.entry->turns;
    const auto process = co_await launch(call, *std::move(request));
    if (!process) {
        // Paused in between: told as to every stream of it, and not as if the command were wrong.
        if (call.entry->paused || call.entry->turns != turn)
            call.exchange.drop();
        else
            co_await rpc::end_stream(call.exchange, process.error());
        co_return;
    }
    co_await stream_process(sandboxes_, call, *process, {.in_charge = true});
}

Task<void> ProcessService::connect_to(EnvdCall& call)
{
    const auto text = co_await rpc::stream_message(call.exchange);
    if (!text) co_return;
    const auto request = read_process_call(*text);
    const auto timeout = rpc::timeout(call.exchange.head());
    rpc::begin_stream(call.exchange);
    if (!request || !timeout) {
        co_await rpc::end_stream(call.exchange,
                                 connect::failure_of(request ? timeout.error() : request.error()));
        co_return;
    }
    const auto process = co_await select(call, request->process);
    if (!process) {
        co_await rpc::end_stream(call.exchange, process.error());
        co_return;
    }
    if (const auto& status = (*process)->ended) {
        const auto both = connect::encode(start_event((*process)->pid)) + connect::encode(end_event(*status));
        co_await rpc::end_stream(call.exchange, std::nullopt, both);
        co_return;
    }
    StreamOptions options;
    if (*timeout) options.until = now() + **timeout;
    // What was printed while nobody was attached is not told.
    const auto known = co_await call.backend.execs(call.handle);
    if (known)
        for (const auto& one : *known)
            if (one.id == (*process)->exec) options.from = one.events;
    co_await stream_process(sandboxes_, call, *process, options);
}

Task<ProcessService::Outcome> ProcessService::send_input(EnvdCall& call, ProcessPtr process,
                                                         ProcessInput input)
{
    const bool to_pty = input.to == ProcessInput::To::Pty;
    if (to_pty != process->pty)
        co_return failure(connect::Status::Internal,
                          process->pty ? "the process has a pty: send pty input" : "the process has no pty");
    if (!process->pty && !process->stdin_open)
        co_return failure(connect::Status::Internal, "stdin of the process is not open");
    // As long as the client waits and the process lives: whoever is told less than the truth here would not
    // know how much of his input was read.
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const auto turn = call.entry->turns;
    const auto breath = [&]() -> Task<bool> {
        timer.expires_after(kInputBreath);
        const auto first =
            co_await (timer.async_wait(as_value) || rpc::interrupted(call.exchange, call.entry));
        co_return first.index() == 0 && call.entry->turns == turn && !process->ended;
    };
    while (process->writing) {
        if (!co_await breath()) co_return failure(connect::Status::Unavailable, "the process does not read");
    }
    process->writing = true;
    Outcome out;
    for (std::size_t at = 0; at < input.bytes.size() && !out;) {
        const auto piece = input.bytes.substr(at, kInputPiece);
        const auto taken =
            co_await call.backend.write_input(call.handle, process->exec, ++process->write_id, piece);
        if (!taken) {
            out = connect::failure_of(taken.error());
            if (out->status != connect::Status::NotFound) out->status = connect::Status::Internal;
            break;
        }
        at += *taken;
        if (*taken == piece.size()) continue;
        if (!co_await breath()) {
            out = failure(connect::Status::Unavailable, "the process does not read its input");
            break;
        }
    }
    process->writing = false;
    co_return out;
}

Task<ProcessService::Outcome> ProcessService::unary(EnvdCall& call, std::string_view method,
                                                    std::string& answer)
{
    const auto text = co_await rpc::unary_message(call.exchange);
    if (!text) co_return std::nullopt;
    if (method == "List") {
        co_await recall(call.entry);
        std::vector<ProcessInfo> all;
        for (const auto& [pid, process] : call.entry->processes)
            if (!process->ended) all.push_back({.config = process->config, .pid = pid, .tag = process->tag});
        answer = list_answer(all);
        co_return std::nullopt;
    }
    const auto request = read_process_call(*text);
    if (!request) co_return connect::failure_of(request.error());
    const auto found = co_await select(call, request->process);
    if (!found) co_return found.error();
    const auto process = *found;
    if (process->ended)
        co_return failure(connect::Status::NotFound,
                          fmt::format("process with {} not found", words(request->process)));
    const auto told = [](const Status& done) -> Outcome {
        if (done) return std::nullopt;
        return connect::failure_of(done.error());
    };
    if (method == "SendSignal") {
        if (request->signal != SIGKILL && request->signal != SIGTERM)
            co_return failure(connect::Status::Unimplemented, "only SIGTERM and SIGKILL can be sent");
        co_return told(co_await call.backend.signal(call.handle, process->exec, request->signal));
    }
    if (method == "SendInput") {
        if (!request->input) co_return failure(connect::Status::Unimplemented, "no input");
        co_return co_await send_input(call, process, *request->input);
    }
    if (method == "CloseStdin") {
        if (process->pty) co_return failure(connect::Status::Unknown, "a pty has no end of input: send 0x04");
        if (!process->stdin_open) co_return std::nullopt;
        process->stdin_open = false;
        co_return told(co_await call.backend.close_input(call.handle, process->exec, ++process->write_id));
    }
    if (!process->pty) co_return failure(connect::Status::Internal, "the process has no pty");
    if (!request->pty) co_return std::nullopt;
    const TerminalSize size{.rows = request->pty->rows, .columns = request->pty->columns};
    co_return told(co_await call.backend.resize(call.handle, process->exec, size));
}

Task<void> ProcessService::stream_input(EnvdCall& call)
{
    if (!co_await rpc::check_stream(call.exchange)) co_return;
    call.exchange.let_trickle();
    connect::EnvelopeReader reader(rpc::kMessageLimit);
    ProcessPtr process;
    Outcome failed;
    while (!failed) {
        auto piece = co_await call.exchange.read();
        if (!piece) co_return; // the client is gone
        if (piece->empty()) break;
        reader.feed(*piece);
        for (;;) {
            auto envelope = reader.next();
            if (!envelope) failed = connect::failure_of(envelope.error());
            if (!envelope || !*envelope || failed) break;
            const auto message = read_input_message((*envelope)->payload);
            if (!message) {
                failed = connect::failure_of(message.error());
                break;
            }
            if (message->start) {
                auto found = co_await select(call, *message->start);
                if (found)
                    process = *found;
                else
                    failed = found.error();
            }
            if (message->data && !failed) {
                if (process)
                    failed = co_await send_input(call, process, *message->data);
                else
                    failed = failure(connect::Status::InvalidArgument, "the first message names the process");
            }
        }
    }
    if (!failed && !reader.clean())
        failed = failure(connect::Status::InvalidArgument, "a message was cut off");
    rpc::begin_stream(call.exchange);
    co_await rpc::end_stream(call.exchange, failed, failed ? std::string{} : connect::encode("{}"));
}

} // namespace berth::e2b
