#include "keeping/relayed_execs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "keeping/exec_follower.hpp"
#include "keeping/exec_logs.hpp"

namespace berth::keeping {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr const char* kWanted = "wanted";
constexpr auto kFirstBreath = 1ms;
constexpr auto kLongestBreath = 20ms;
constexpr auto kLookAgain = 1s; // for another process that wrote a log and is gone
constexpr auto kSettlePatience = 5s;
constexpr auto kHeardPatience = 5s;
constexpr auto kKillPatience = 10s;
constexpr auto kTakePatience = 10s; // for whoever has an exec to let it go

SteadyTime now() { return system_clock().steady(); }

} // namespace

Status ask_for_it(int exec_directory)
{
    const UniqueFd file(::openat(exec_directory, kWanted, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("asking for an exec");
    return {};
}

bool is_asked_for(int exec_directory) noexcept { return ::faccessat(exec_directory, kWanted, F_OK, 0) == 0; }

void stop_asking(int exec_directory) noexcept { ::unlinkat(exec_directory, kWanted, 0); }

Status RelayedExecs::begin(const std::string& native, const ExecSpec& spec,
                           const std::function<Result<ExecPtr>(RelayedWish)>& start)
{
    BERTH_TRY(const auto directory, directory_(native));
    const ExecStart how{.user = spec.user, .input = spec.input == ExecSpec::Stdin::Open};
    BERTH_TRY(auto own, make_exec(directory.get(), spec.id, how));
    const auto run = [&]() -> Result<ExecPtr> {
        const auto streams = spec.terminal ? ExecLog::Streams::Terminal : ExecLog::Streams::Separate;
        BERTH_TRY(auto claim, claim_log(own.get()));
        BERTH_TRY(auto log, ExecLog::create(own.get(), streams));
        BERTH_TRY(auto writer, LogWriter::begin(std::move(log), spec.log_limit));
        return start({.native = native,
                      .exec = spec.id,
                      .directory = std::move(own),
                      .claim = std::move(claim),
                      .writer = std::move(writer)});
    };
    auto running = run();
    if (!running) {
        (void)remove_exec(directory.get(), spec.id);
        return std::unexpected(std::move(running).error());
    }
    std::vector<ExecPtr> over; // their threads end without the lock
    const std::scoped_lock lock(mutex_);
    for (auto at = held_.begin(); at != held_.end();) {
        if (!at->second.exec->done()) {
            ++at;
            continue;
        }
        over.push_back(std::move(at->second.exec));
        at = held_.erase(at);
    }
    held_[spec.id] = {.native = native, .exec = *std::move(running)};
    return {};
}

/// An empty descriptor: somebody else has it, and may keep it.
Result<UniqueFd> RelayedExecs::claim(int exec_directory, Act act)
{
    const auto until = now() + kTakePatience;
    for (;;) {
        BERTH_TRY(auto mine, claim_log(exec_directory));
        if (mine || act == Act::Read) return mine;
        BERTH_CHECK(ask_for_it(exec_directory));
        if (now() >= until) {
            stop_asking(exec_directory);
            return fail(Code::Unavailable, "another process has the exec and does not let it go");
        }
        std::this_thread::sleep_for(10ms);
    }
}

/// The exec's log, and whoever of this process writes it.
Result<ExecLog> RelayedExecs::attend(const std::string& native, const std::string& exec, Act act,
                                     ExecPtr& ours)
{
    BERTH_TRY(const auto directory, directory_(native));
    BERTH_TRY(auto log, open_log(directory.get(), exec));
    BERTH_TRY(const bool closed, log.closed());
    if (closed) return log;
    ExecPtr over;
    {
        const std::scoped_lock lock(mutex_);
        if (const auto at = held_.find(exec); at != held_.end()) {
            ours = at->second.exec;
            if (!ours->done() || (ours->lost() && act == Act::Read)) {
                // It was out of reach; whoever asks the next time begins anew.
                if (ours->lost()) held_.erase(at);
                return log;
            }
            // Ended, out of reach, or let go to somebody who asked for it.
            over = std::move(at->second.exec);
            held_.erase(at);
            ours.reset();
        }
    }
    over.reset();
    BERTH_TRY(auto own, open_exec(directory.get(), exec));
    BERTH_TRY(auto mine, claim(own.get(), act));
    if (!mine) return log; // somebody else writes it
    if (act == Act::Take) stop_asking(own.get());
    BERTH_TRY(auto written, open_log(directory.get(), exec, ExecLog::Access::Repair));
    BERTH_TRY(const bool ended_meanwhile, written.closed());
    if (ended_meanwhile) return log;
    // Its starter was killed before it asked anybody.
    if (!written.head()) {
        BERTH_CHECK(written.repair(system_clock().now()));
        return log;
    }
    // A log without a beginning: nobody heard that it runs, and it may all the same.
    BERTH_TRY(auto writer, LogWriter::go_on(std::move(written)));
    BERTH_TRY(ours, go_on_({.native = native,
                            .exec = exec,
                            .directory = std::move(own),
                            .claim = std::move(mine),
                            .writer = std::move(writer)}));
    // Whoever looks sees what is known elsewhere, not what was known when somebody last listened.
    ours->wait_heard(now() + kHeardPatience);
    const std::scoped_lock lock(mutex_);
    held_[exec] = {.native = native, .exec = ours};
    return log;
}

Result<RelayedExecs::ExecPtr> RelayedExecs::take(const std::string& native, const std::string& exec)
{
    ExecPtr ours;
    BERTH_TRY(const auto log, attend(native, exec, Act::Take, ours));
    std::uint64_t at = 0;
    BERTH_TRY(const auto status, find_exit(log, at));
    if (status || !ours) return fail(Code::Conflict, "{} has ended", exec);
    return ours;
}

Result<RelayedExecs::ExecPtr> RelayedExecs::take_input(const std::string& native, const std::string& exec)
{
    BERTH_TRY(auto running, take(native, exec));
    BERTH_TRY(const auto directory, directory_(native));
    BERTH_TRY(const auto own, open_exec(directory.get(), exec));
    BERTH_TRY(const auto start, read_start(own.get()));
    BERTH_TRY(const auto log, open_log(directory.get(), exec));
    if (!start.input && !log.terminal()) return fail(Code::Conflict, "{} was started without input", exec);
    return running;
}

Status RelayedExecs::kill(const std::string& native, const std::string& exec)
{
    const auto running = take(native, exec);
    if (!running && running.error().code == Code::Conflict) return {};
    if (!running) return std::unexpected(running.error());
    auto done = (*running)->kill();
    if (!done && done.error().code == Code::Conflict) return {};
    return done;
}

Status RelayedExecs::resize(const std::string& native, const std::string& exec, TerminalSize size)
{
    BERTH_TRY(const auto directory, directory_(native));
    BERTH_TRY(const auto log, open_log(directory.get(), exec));
    if (!log.terminal()) return fail(Code::Invalid, "{} has no terminal", exec);
    BERTH_TRY(const auto running, take(native, exec));
    return running->resize(size);
}

Task<Result<std::vector<ExecEvent>>> RelayedExecs::read_events(std::string native, std::string exec,
                                                               std::uint64_t from, SteadyTime until)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
        ExecPtr ours;
        const auto look = [&]() -> Result<ExecFollower> {
            BERTH_TRY(auto log, attend(native, exec, Act::Read, ours));
            return ExecFollower::read(std::move(log), from);
        };
        BERTH_CO_TRY(auto follower, co_await pool_.call(look));
        std::chrono::milliseconds breath = kFirstBreath;
        const auto again = now() + kLookAgain;
        while (ours || now() < again) {
            const bool silent = !ours || ours->done();
            const auto time = now();
            const auto next = [&] { return follower.next(time); };
            BERTH_CO_TRY(auto events, co_await pool_.call(next));
            if (!events.empty() || follower.ended() || time >= until) co_return events;
            if (ours && silent) {
                if (const auto lost = ours->lost()) co_return std::unexpected(*lost);
                ours.reset();
                if (breath > kFirstBreath) break;
            }
            timer.expires_at(std::min(until, now() + breath));
            co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
            breath = std::min<std::chrono::milliseconds>(breath * 2, kLongestBreath);
        }
    }
}

Task<Result<std::optional<Ended>>> RelayedExecs::wait(std::string native, std::string exec, SteadyTime until)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    std::chrono::milliseconds breath = kFirstBreath;
    std::uint64_t at = 0;
    for (;;) {
        ExecPtr ours;
        const auto look = [&]() -> Result<std::optional<ExitStatus>> {
            BERTH_TRY(const auto log, attend(native, exec, Act::Read, ours));
            return find_exit(log, at);
        };
        const auto time = now();
        BERTH_CO_TRY(const auto status, co_await pool_.call(look));
        if (status) co_return Ended{.status = *status, .struck = {}};
        if (time >= until) co_return std::optional<Ended>{};
        if (ours)
            if (const auto lost = ours->lost()) co_return std::unexpected(*lost);
        timer.expires_at(std::min(until, now() + breath));
        co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
        breath = std::min<std::chrono::milliseconds>(breath * 2, kLongestBreath);
    }
}

Result<std::vector<ExecInfo>> RelayedExecs::list(const std::string& native)
{
    BERTH_TRY(const auto directory, directory_(native));
    BERTH_TRY(const auto all, list_logs(directory.get(), LogKeeper::Lives));
    bool adopted = false;
    for (const auto& one : all) {
        if (!one.running) continue;
        ExecPtr ours;
        BERTH_TRY([[maybe_unused]] const auto log, attend(native, one.id, Act::Read, ours));
        adopted = true;
    }
    if (!adopted) return all;
    return list_logs(directory.get(), LogKeeper::Lives);
}

Status RelayedExecs::settle(const std::string& native, const std::string& exec)
{
    ExecPtr before;
    {
        const std::scoped_lock lock(mutex_);
        if (const auto at = held_.find(exec); at != held_.end()) before = at->second.exec;
    }
    if (before)
        if (const auto lost = before->lost()) return std::unexpected(*lost);
    ExecPtr ours;
    BERTH_TRY(const auto log, attend(native, exec, Act::Read, ours));
    // One that another process has left: is it still there?
    if (ours && ours != before) ours->wait_done(now() + kSettlePatience);
    BERTH_CHECK(log.sync());
    BERTH_TRY(const bool closed, log.closed());
    if (!closed) return {};
    BERTH_TRY(const auto directory, directory_(native));
    return trim_logs_after(directory.get(), exec);
}

Result<int> RelayedExecs::pid(const std::string& native, const std::string& exec)
{
    BERTH_TRY(const auto directory, directory_(native));
    BERTH_TRY(const auto log, open_log(directory.get(), exec));
    BERTH_TRY(const auto first, log.records(0, 1));
    if (first.empty() || first.front().status <= 0)
        return fail(Code::NotFound, "the process of {} is not known", exec);
    return first.front().status;
}

void RelayedExecs::end_all(const std::string& native, std::chrono::milliseconds grace)
{
    const auto directory = directory_(native);
    const auto all = directory ? list_logs(directory->get(), LogKeeper::Lives)
                               : Result<std::vector<ExecInfo>>(std::vector<ExecInfo>{});
    if (!all) return;
    std::vector<ExecPtr> ending;
    for (const auto& one : *all) {
        if (!one.running) continue;
        const auto running = take(native, one.id);
        if (running && (grace.count() == 0 || (*running)->signal(SIGTERM))) ending.push_back(*running);
    }
    const auto until = now() + grace;
    if (grace.count() > 0)
        for (const auto& one : ending) one->wait_done(until);
    // What is left is killed by whoever stands beside it, so that its end is known.
    std::erase_if(ending, [](const ExecPtr& one) { return one->done() || !one->kill(); });
    const auto last = now() + kKillPatience;
    for (const auto& one : ending) one->wait_done(last);
}

void RelayedExecs::let_go(const std::string& native)
{
    std::vector<ExecPtr> over; // their threads end without the lock
    const std::scoped_lock lock(mutex_);
    for (auto at = held_.begin(); at != held_.end();) {
        if (at->second.native != native) {
            ++at;
            continue;
        }
        over.push_back(std::move(at->second.exec));
        at = held_.erase(at);
    }
}

} // namespace berth::keeping
