#include "cli/exec_stream.hpp"

#include <unistd.h>

#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/event_json.hpp"
#include "core/attends.hpp"
#include "core/holds_time.hpp"
#include "core/paused_time.hpp"
#include "sys/pty.hpp"

namespace berth::cli {

namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kReadAtOnce = 10s;    // a wait of one read; the loop goes on
constexpr auto kDeathPatience = 10s; // from SIGKILL to the kernel's word
constexpr auto kLinger = 1s;         // a grandchild may hold the streams after the exit
constexpr auto kDrain = 2s;          // what a killed command printed is still told, if it can be
constexpr auto kPausedInterval = 100ms;
constexpr std::size_t kFeed = 60u << 10;
// A command that does not read its input is asked again, ever less often.
constexpr SteadyTime::duration kFirstBreath = 500us;
constexpr SteadyTime::duration kLongestBreath = 100ms;

SteadyTime now() { return system_clock().steady(); }

/// Until it is cancelled.
Task<void> for_ever()
{
    asio::steady_timer timer(co_await asio::this_coro::executor, SteadyTime::max());
    co_await timer.async_wait(as_value);
}

bool is_output(ExecEvent::Kind kind)
{
    return kind == ExecEvent::Kind::Stdout || kind == ExecEvent::Kind::Stderr || kind == ExecEvent::Kind::Pty;
}

} // namespace

ExecStream::ExecStream(asio::any_io_executor loop, Backend& backend, SandboxHandle sandbox, ExecSpec exec,
                       Options options)
    : loop_(loop), backend_(backend), sandbox_(std::move(sandbox)), exec_(std::move(exec)), options_(options),
      signals_(loop, SIGINT, SIGTERM, SIGHUP), drain_(loop, SteadyTime::max()),
      reader_(backend, sandbox_, exec_.id)
{
    for (const int signo : {SIGQUIT, SIGUSR1, SIGUSR2}) signals_.add(signo);
    if (exec_.terminal) signals_.add(SIGWINCH);
}

Task<Result<RunOutcome>> ExecStream::run()
{
    const auto open = [&](std::optional<SharedEnd>& end, int fd, SharedEnd::Use use) -> Status {
        BERTH_TRY(auto opened, SharedEnd::open(loop_, fd, use));
        end.emplace(std::move(opened));
        return {};
    };
    // What comes for a stream that we were started without is lost, and said to be.
    (void)open(out_, STDOUT_FILENO, SharedEnd::Use::Write);
    (void)open(err_, STDERR_FILENO, SharedEnd::Use::Write);
    if (exec_.input == ExecSpec::Stdin::Open) BERTH_CO_CHECK(open(in_, STDIN_FILENO, SharedEnd::Use::Read));

    co_await attend(backend_, sandbox_, exec_.id);
    // The others wait until they are cancelled: the end of the events is the end of all.
    const auto ended = co_await (pass_events() || feed() || pass_signals() || watch_time() || drained());
    if (const auto* const events = std::get_if<Status>(&ended); events != nullptr && !*events)
        co_return std::unexpected(events->error());
    if (failed_) co_return std::unexpected(*failed_);
    BERTH_CO_TRY(auto told, co_await backend_.wait(sandbox_, exec_.id, exit_ ? now() : patience()));
    if (told) outcome_.struck = std::move(told->struck);
    if (told && !exit_) {
        outcome_.status = told->status;
        if (exec_.timeout && !outcome_.timed_out)
            outcome_.timed_out = co_await ended_by_time(backend_, sandbox_, exec_.id, told->status);
    }
    co_return outcome_;
}

/// How long a read may wait: until a grandchild has held the streams long enough, or death should have come.
SteadyTime ExecStream::patience() const
{
    if (exit_) return exit_seen_ + kLinger;
    return std::min(now() + kReadAtOnce, killed_ ? *killed_ + kDeathPatience : SteadyTime::max());
}

Task<Status> ExecStream::pass_events()
{
    while (!reader_.closed()) {
        BERTH_CO_TRY(const auto events, co_await reader_.next(patience()));
        for (const auto& event : events)
            if (!co_await pass(event)) co_return Status{};
        if (failed_) co_return Status{};
        if (!events.empty()) continue;
        if (exit_ && now() >= exit_seen_ + kLinger) co_return Status{};
        if (killed_ && !exit_ && now() >= *killed_ + kDeathPatience)
            co_return fail(Code::Unavailable,
                           "{} was killed and has not ended in {}: berth logs {} {} shows it", exec_.id,
                           show(kDeathPatience), sandbox_.sandbox, exec_.id);
    }
    co_return Status{};
}

/// False: what follows is not the command's any more.
Task<bool> ExecStream::pass(const ExecEvent& event)
{
    // By the time of the writing, not of the reading: our reader may be slow.
    if (exit_ && is_output(event.kind) && event.time > exit_->time + kLinger) co_return false;
    if (event.kind == ExecEvent::Kind::Exit) {
        exit_ = event;
        exit_seen_ = now();
        outcome_.status = event.status;
        if (ended_by_itself(event.status))
            outcome_.timed_out = false;
        else if (exec_.timeout && !outcome_.timed_out)
            outcome_.timed_out = co_await ended_by_time(backend_, sandbox_, exec_.id, event.status);
    }
    if (options_.json) {
        co_await put(out_, event_line(event, outcome_.timed_out && event.status.signal() == SIGKILL));
        co_return true;
    }
    if (event.kind == ExecEvent::Kind::Gap) {
        outcome_.dropped += event.gap_bytes;
        const bool known = event.gap_bytes != 0;
        say(missing_words(event) + (known ? ": " + why_missing() : ""));
    }
    if (!is_output(event.kind)) co_return true;
    const bool is_err = event.kind == ExecEvent::Kind::Stderr;
    kept_[is_err ? 1 : 0] += event.bytes.size();
    co_await put(is_err ? err_ : out_, event.bytes);
    co_return true;
}

/// The limit of a log cuts out of its middle, never out of its first half.
std::string ExecStream::why_missing() const
{
    constexpr std::uint64_t page = 4096;
    if (std::max(kept_[0], kept_[1]) + page < exec_.log_limit.count / 2)
        return "there was no room for it on the disk of the state directory";
    return "the log holds " + show(exec_.log_limit);
}

Task<void> ExecStream::put(std::optional<SharedEnd>& end, std::string bytes)
{
    if (reader_gone_ && &end == &out_) {
        co_await reader_gone();
        co_return;
    }
    if (end && co_await end->write(std::move(bytes))) co_return;
    const int error = end ? end->error() : EBADF;
    if (error != EPIPE && !unwritten_)
        unwritten_ =
            Error{.code = Code::Internal,
                  .message = fmt::format("writing the output: {}", std::generic_category().message(error))};
    if (&end == &out_) co_await reader_gone();
}

/// The command does not write into a pipe of ours and cannot notice; it is told as the kernel would tell
/// it, and once more in plain words when it goes on writing.
Task<void> ExecStream::reader_gone()
{
    if (exit_) co_return;
    if (!reader_gone_) {
        reader_gone_ = now();
        (void)co_await backend_.signal(sandbox_, exec_.id, SIGPIPE);
    } else if (!told_reader_gone_ && now() > *reader_gone_ + 1s) {
        told_reader_gone_ = true;
        (void)co_await backend_.signal(sandbox_, exec_.id, SIGTERM);
    }
}

Task<void> ExecStream::feed()
{
    std::uint64_t write_id = 1;
    asio::steady_timer breath(loop_);
    while (in_) {
        std::string bytes = co_await in_->read(kFeed);
        if (bytes.empty()) {
            // It may have closed its side already; its own end is what counts.
            (void)co_await backend_.close_input(sandbox_, exec_.id, write_id);
            break;
        }
        auto pause = kFirstBreath;
        while (!bytes.empty()) {
            const auto taken = co_await backend_.write_input(sandbox_, exec_.id, write_id++, bytes);
            if (!taken) {
                in_.reset(); // nobody reads there: what is left of our input stays where it is
                break;
            }
            if (*taken > 0) pause = kFirstBreath;
            bytes.erase(0, *taken);
            if (bytes.empty()) break;
            breath.expires_after(pause);
            co_await breath.async_wait(as_value);
            pause = std::min(pause * 2, kLongestBreath);
        }
    }
    co_await for_ever();
}

/// False: it has ended by now, by its keeper or by itself, and says which with its exit.
Task<bool> ExecStream::kill()
{
    if (exit_ || killed_) co_return false;
    auto dead = co_await backend_.kill(sandbox_, exec_.id);
    if (!dead && dead.error().code != Code::NotFound && !exit_)
        failed_ = std::move(dead).error().while_doing("ending " + exec_.id);
    killed_ = now();
    drain_.expires_at(now() + kDrain);
    co_return dead.has_value();
}

/// Ends when a killed command's output was waited for long enough: our reader may have stopped reading.
Task<void> ExecStream::drained()
{
    boost::system::error_code moved;
    do std::tie(moved) = co_await drain_.async_wait(as_value);
    while (moved);
}

Task<void> ExecStream::pass_signals()
{
    if (exec_.terminal) co_await fit_terminal();
    for (;;) {
        const auto [error, signo] = co_await signals_.async_wait(as_value);
        if (error) break;
        if (signo == SIGWINCH) {
            co_await fit_terminal();
            continue;
        }
        // Whoever presses Ctrl-C twice means it; and whoever then does it again does not want to wait.
        const bool end = signo == SIGINT || signo == SIGTERM;
        if (end && killed_ && !exit_) {
            failed_ =
                Error{.code = Code::Unavailable,
                      .message = fmt::format("left {}, which was killed and has not ended yet", exec_.id)};
            co_return;
        }
        if (end && ++interrupts_ > 1)
            (void)co_await kill();
        else
            (void)co_await backend_.signal(sandbox_, exec_.id, signo); // one that has ended takes none
    }
    co_await for_ever();
}

Task<void> ExecStream::fit_terminal()
{
    const auto size = sys::window_size(STDIN_FILENO);
    if (!size) co_return;
    (void)co_await backend_.resize(sandbox_, exec_.id, {.rows = size->rows, .columns = size->columns});
}

Task<void> ExecStream::watch_time()
{
    if (exec_.timeout) {
        SteadyTime deadline = now() + *exec_.timeout + keepers_turn(backend_);
        PausedTime paused = co_await PausedTime::begin(backend_, sandbox_, true);
        asio::steady_timer timer(loop_, deadline);
        for (;;) {
            co_await timer.async_wait(as_value);
            const auto look = co_await paused.look(backend_, sandbox_);
            deadline += look.more;
            const auto look_at = look.paused ? std::max(deadline, now() + kPausedInterval) : deadline;
            if (now() >= look_at) break;
            timer.expires_at(look_at);
        }
        if (!exit_) {
            // Before: its end may be read while the kill is still on its way back.
            outcome_.timed_out = true;
            const bool killed = co_await kill();
            if (!exit_ && !killed) outcome_.timed_out = false;
        }
    }
    co_await for_ever();
}

} // namespace berth::cli
