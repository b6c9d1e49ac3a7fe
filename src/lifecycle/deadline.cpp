// Timeouts of commands. A keeper ends them at the moment. Where there is none, or one of an older program,
// whoever started one minds it; its record says the same, for the case that he is killed: then any server, or
// `berth gc`, does it a little later.

#include "lifecycle/deadline.hpp"

#include <algorithm>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/hooks.hpp"
#include "base/strings.hpp"
#include "core/holds_time.hpp"
#include "core/paused_time.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr auto kHisTurn = 2s;           // whoever minds it comes first
constexpr auto kDeathPatience = 10s;    // from SIGKILL to the kernel's word
constexpr auto kAgain = 10s;            // whoever was to end it may be dead by now; or it is paused
constexpr auto kPausedInterval = 100ms; // a paused sandbox is asked whether it still is
constexpr auto kLook = 1s;
constexpr std::size_t kAtOnce = 500;

} // namespace

WallTime deadline_of(const ExecRecord& exec, std::chrono::milliseconds paused_in_all)
{
    const auto paused = std::max(paused_in_all - exec.paused_before, 0ms);
    return exec.started + exec.timeout.value_or(0ns) + paused + kHisTurn;
}

Task<Status> set_deadline(Backend& backend, SandboxHandle sandbox, std::chrono::nanoseconds timeout,
                          ExecRecord& exec)
{
    // Longer than any clock goes: never.
    if (timeout > std::chrono::hours(24 * 36500)) co_return Status{};
    exec.timeout = timeout;
    if (backend.capabilities().can(Operation::Pause)) {
        BERTH_CO_TRY(const auto found, co_await backend.inspect(std::move(sandbox)));
        exec.paused_before = found.paused;
    }
    exec.due = deadline_of(exec, exec.paused_before);
    co_return Status{};
}

Task<void> Lifecycle::hold_to_time(SandboxRecord sandbox, std::string id)
{
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    auto open = co_await stored([&](Store& store) { return store.execs(sandbox.id(), true); });
    auto where = co_await backend(sandbox.backend);
    if (!open) open.emplace();
    const auto exec = std::ranges::find(*open, id, &ExecRecord::id);
    if (exec != open->end() && where && exec->timeout) {
        PausedTime paused = co_await PausedTime::begin(**where, handle(sandbox), true);
        SteadyTime deadline =
            clock_.steady() + (*exec->timeout - (clock_.now() - exec->started)) + keepers_turn(**where);
        for (SteadyTime look_at = deadline; clock_.steady() < look_at;) {
            timer.expires_at(look_at);
            co_await timer.async_wait(boost::asio::use_awaitable);
            const auto look = co_await paused.look(**where, handle(sandbox));
            deadline += look.more;
            look_at =
                look.paused ? std::max<SteadyTime>(deadline, clock_.steady() + kPausedInterval) : deadline;
        }
        // One that has ended, by its keeper's hand or by itself, is told as that.
        const auto over = co_await (*where)->wait(handle(sandbox), exec->id, SteadyTime{});
        if (!over || !*over) {
            exec->overdue = true;
            (void)co_await stored([&](Store& store) { return store.note_exec(*exec); });
            hooks::kill_point("exec overdue");
            // Where this fails its record has the deadline, and the next sweep tries again.
            (void)co_await (*where)->kill(handle(sandbox), exec->id);
        }
    }
    timer.expires_at(SteadyTime::max());
    co_await timer.async_wait(boost::asio::use_awaitable);
}

namespace {

/// Looks every moment: to be woken by all that it prints would cost more.
Task<Result<Ended>> until_ended(Backend& backend, SandboxHandle sandbox, std::string exec)
{
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    for (;;) {
        BERTH_CO_TRY(auto ended, co_await backend.wait(sandbox, exec, SteadyTime{}));
        if (ended) co_return *std::move(ended);
        timer.expires_after(kLook);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
}

} // namespace

Task<Status> Lifecycle::mind_exec(SandboxRecord sandbox, std::string exec)
{
    using namespace boost::asio::experimental::awaitable_operators;
    BERTH_CO_TRY(auto* const where, co_await backend(sandbox.backend));
    const auto first = co_await (until_ended(*where, handle(sandbox), exec) || hold_to_time(sandbox, exec));
    const auto& ended = std::get<0>(first);
    if (!ended) co_return std::unexpected(ended.error());
    co_return co_await finish_exec(sandbox, exec, ended->status);
}

/// Marked before it is killed: whoever records its end, in this process or another, says why it came.
Task<Status> Lifecycle::end_overdue(ExecRecord exec, GcWish wish, GcReport& report)
{
    const auto note_again = [&](WallTime due) {
        exec.due = due;
        return stored([&](Store& store) { return store.note_exec(exec); });
    };
    BERTH_CO_TRY(const auto record, co_await stored([&](Store& store) { return store.find(exec.sandbox); }));
    const bool may_run = record && record->generation == exec.generation &&
                         (record->state == State::Running || record->state == State::Paused ||
                          record->state == State::Attached);
    if (!may_run) co_return co_await note_again({}); // it ended with its sandbox
    BERTH_CO_TRY(auto* const where, co_await backend(record->backend));
    BERTH_CO_TRY(const auto found, co_await where->inspect(handle(*record)));
    const auto now = clock_.now();
    // Ended by its keeper, or by itself, and nobody has recorded it: its log tells which.
    BERTH_CO_TRY(const auto over, co_await where->wait(handle(*record), exec.id, SteadyTime{}));
    if (over && !wish.dry_run) co_return co_await finish_exec(*record, exec.id, over->status);
    auto due = deadline_of(exec, found.paused);
    if (found.state == State::Paused) due = std::max<WallTime>(due, now + kAgain);
    if (now < due) co_return co_await note_again(due);
    const std::string why = "its timeout of " + show(*exec.timeout) + " is over";
    if (wish.dry_run) {
        report.actions.push_back({.what = "kill", .object = exec.id, .why = why, .failed = {}});
        co_return Status{};
    }
    exec.overdue = true;
    BERTH_CO_CHECK(co_await note_again(now + kAgain));
    hooks::kill_point("exec overdue");
    auto killed = co_await where->kill(handle(*record), exec.id);
    hooks::kill_point("overdue exec killed");
    const auto ended = co_await where->wait(handle(*record), exec.id, clock_.steady() + kDeathPatience);
    if (ended && *ended) killed = co_await finish_exec(*record, exec.id, (*ended)->status);
    report.actions.push_back({.what = "kill",
                              .object = exec.id,
                              .why = why,
                              .failed = killed ? std::string{} : killed.error().line()});
    co_return Status{};
}

Task<Status> Lifecycle::collect_overdue(GcWish wish, GcReport& report)
{
    BERTH_CO_TRY(const auto due,
                 co_await stored([&](Store& store) { return store.execs_due(clock_.now(), kAtOnce); }));
    for (const auto& exec : due) {
        if (wish.over != nullptr && *wish.over) co_return Status{};
        const auto done = co_await end_overdue(exec, wish, report);
        if (!done)
            report.actions.push_back({.what = "kill",
                                      .object = exec.id,
                                      .why = "its time is over",
                                      .failed = done.error().line()});
    }
    co_return Status{};
}

} // namespace berth
