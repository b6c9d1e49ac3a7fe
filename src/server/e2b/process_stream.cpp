#include "server/e2b/process_stream.hpp"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.hpp"
#include "core/exec_reader.hpp"
#include "server/e2b/rpc.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kLinger = 100ms; // without a word after the exit: a grandchild holds the pipe
constexpr auto kLingerAtMost = 2s;
constexpr std::size_t kChunk = 32 * 1024;
constexpr std::size_t kPtyChunk = 16 * 1024;
constexpr std::size_t kFrame = 64; ///< what a message has beside its bytes
constexpr std::size_t kBusy = std::size_t{64} << 10;
constexpr auto kBreath = 200us; // a busy command's output is read in large pieces, and waited for less often

SteadyTime now() { return system_clock().steady(); }

std::optional<Output> output_of(ExecEvent::Kind kind)
{
    switch (kind) {
    case ExecEvent::Kind::Stdout: return Output::Stdout;
    case ExecEvent::Kind::Stderr: return Output::Stderr;
    case ExecEvent::Kind::Pty: return Output::Pty;
    default: return std::nullopt;
    }
}

Task<void> record_end(Sandboxes& sandboxes, EntryPtr entry, std::string exec, ExitStatus status)
{
    co_await sandboxes.notes().remove(entry->id, exec);
    auto done = co_await sandboxes.ground().berth.lifecycle().finish_exec(entry->record, exec, status);
    if (!done && !entry->dying)
        log::debug("an end was not recorded", {{"exec", exec}, {"why", done.error().line()}});
}

void ended(Process& process, ExitStatus status)
{
    if (process.ended) return;
    process.ended = status;
    process.ended_at = now();
}

/// What is shown of one event, as frames.
void add_frames(std::string& out, const ExecEvent& event)
{
    const auto stream = output_of(event.kind);
    if (!stream) return;
    const std::size_t most = *stream == Output::Pty ? kPtyChunk : kChunk;
    out.reserve(out.size() + event.bytes.size() * 4 / 3 + (event.bytes.size() / most + 1) * kFrame);
    for (std::size_t at = 0; at < event.bytes.size(); at += most) {
        const auto opened = connect::open_envelope(out);
        append_data_event(out, *stream, std::string_view(event.bytes).substr(at, most));
        connect::close_envelope(out, opened);
    }
}

/// One stream's place and clocks.
struct Streaming {
    StreamOptions options;
    std::chrono::seconds keepalive{90};
    SteadyTime quiet_since = now();
    std::optional<SteadyTime> exited_at;
    std::optional<SteadyTime> last_word; ///< after the exit

    [[nodiscard]] SteadyTime wake(const Process& process) const
    {
        SteadyTime out = quiet_since + keepalive;
        if (options.until) out = std::min(out, *options.until);
        if (options.in_charge && process.deadline && !process.overdue && !process.ended)
            out = std::min(out, *process.deadline);
        if (exited_at) out = std::min({out, *last_word + kLinger, *exited_at + kLingerAtMost});
        return out;
    }
};

} // namespace

Task<void> mind_process(Sandboxes& sandboxes, EntryPtr entry, std::shared_ptr<Process> process)
{
    const auto where = co_await sandboxes.backend(*entry);
    if (!where) co_return;
    const auto handle = Sandboxes::handle(*entry);
    while (!entry->dying && !process->ended && !sandboxes.leaving()) {
        SteadyTime until = now() + 1h;
        if (process->deadline && !process->overdue) until = std::min(until, *process->deadline);
        auto first =
            co_await ((*where)->wait(handle, process->exec, until) || entry->turn->async_wait(as_value));
        if (entry->dying || sandboxes.leaving()) co_return;
        if (first.index() == 1) continue;
        const auto& end = std::get<0>(first);
        if (!end) {
            ended(*process, ExitStatus::unknown());
            co_return;
        }
        if (*end) {
            ended(*process, (*end)->status);
            co_await record_end(sandboxes, entry, process->exec, (*end)->status);
            co_return;
        }
        if (!process->deadline || process->overdue || now() < *process->deadline) continue;
        // A frozen command's time stands still.
        if (entry->paused) {
            *process->deadline = now() + 1s;
            continue;
        }
        process->overdue = true;
        (void)co_await (*where)->kill(handle, process->exec);
    }
}

Task<void> stream_process(Sandboxes& sandboxes, EnvdCall& call, std::shared_ptr<Process> process,
                          StreamOptions options)
{
    const auto executor = co_await asio::this_coro::executor;
    auto& exchange = call.exchange;
    const auto entry = call.entry;
    const auto turn = entry->turns;
    Streaming at{.options = options, .keepalive = rpc::keepalive(exchange.head())};
    ExecReader reader(call.backend, call.handle, process->exec, options.from);

    // Whoever was in charge leaves it to somebody else.
    const auto leave = [&] {
        if (options.in_charge && !process->ended && !entry->dying)
            asio::co_spawn(executor, mind_process(sandboxes, entry, process), asio::detached);
    };
    if (!co_await exchange.write(connect::encode(start_event(process->pid)))) {
        leave();
        co_return;
    }
    std::optional<ExitStatus> status = process->ended;
    if (status) at.exited_at = at.last_word = now();
    std::string last; // what is told with the end
    asio::steady_timer breath(executor);
    for (bool closed = false, busy = false; !closed;) {
        const auto wake = at.wake(*process);
        // What is there already is not waited for: to wait for several things at once costs as much as a
        // small command prints.
        auto events = co_await reader.next(SteadyTime::min());
        if (events && events->empty() && !reader.closed()) {
            if (std::exchange(busy, false)) {
                breath.expires_after(kBreath);
                co_await breath.async_wait(as_value);
                continue;
            }
            auto first = co_await (reader.next(wake) || rpc::interrupted(exchange, entry));
            if (first.index() == 1 && entry->turns == turn) {
                leave();
                co_return;
            }
            if (first.index() == 0) events = std::get<0>(std::move(first));
        } else {
            co_await asio::post(executor, asio::use_awaitable); // others have their turn
        }
        if (entry->turns != turn) {
            // Killed, paused or out of time: no end is told, so that clients look for themselves.
            exchange.drop();
            leave();
            co_return;
        }
        if (!events) {
            // An ended one may be forgotten by now.
            if (status) break;
            co_await rpc::end_stream(exchange, connect::failure_of(events.error()));
            leave();
            co_return;
        }
        // Whoever is in charge may have seen the end of what was read to its end here.
        if (!status && process->ended) {
            status = process->ended;
            at.exited_at = at.last_word = now();
        }
        if (events->empty() && now() < wake) {
            if (status) break;
            breath.expires_after(kLinger);
            co_await breath.async_wait(as_value);
        }
        std::string out;
        for (const auto& event : *events) {
            add_frames(out, event);
            if (event.kind == ExecEvent::Kind::Exit) {
                status = event.status;
                ended(*process, event.status);
                at.exited_at = at.last_word = now();
                if (options.in_charge)
                    asio::co_spawn(executor, record_end(sandboxes, entry, process->exec, event.status),
                                   asio::detached);
            }
            if (event.kind == ExecEvent::Kind::Closed) closed = true;
        }
        busy = out.size() >= kBusy;
        if (!out.empty()) {
            at.quiet_since = now();
            if (at.exited_at) at.last_word = now();
        } else if (now() >= at.quiet_since + at.keepalive) {
            at.quiet_since = now();
            out = connect::encode(keepalive_event());
        }
        if (closed && !process->overdue) {
            last = std::move(out);
            break;
        }
        if (!out.empty() && !co_await exchange.write(out)) {
            leave();
            co_return;
        }
        if (at.exited_at && (now() >= *at.last_word + kLinger || now() >= *at.exited_at + kLingerAtMost))
            break;
        if (options.until && now() >= *options.until && !status) {
            co_await rpc::end_stream(exchange,
                                     connect::Failure{.status = connect::Status::DeadlineExceeded,
                                                      .message = "the time for this stream is over"});
            leave();
            co_return;
        }
        if (options.in_charge && process->deadline && !process->overdue && !process->ended &&
            now() >= *process->deadline) {
            process->overdue = true;
            (void)co_await call.backend.kill(call.handle, process->exec);
        }
    }
    if (process->overdue) {
        co_await rpc::end_stream(exchange,
                                 connect::Failure{.status = connect::Status::DeadlineExceeded,
                                                  .message = "the process was killed: its time was over"});
        co_return;
    }
    last += connect::encode(end_event(status.value_or(ExitStatus::unknown())));
    co_await rpc::end_stream(exchange, std::nullopt, std::move(last));
}

} // namespace berth::e2b
