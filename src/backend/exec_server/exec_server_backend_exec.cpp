// The execs of a sandbox. Their logs lie on this machine, written by whichever process has the session.

#include <algorithm>
#include <csignal>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backend/exec_server/exec_server_backend.hpp"
#include "backend/exec_server/holdings.hpp"
#include "base/strings.hpp"
#include "keeping/exec_follower.hpp"
#include "keeping/exec_logs.hpp"

namespace berth::exec_server {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kFirstBreath = 1ms;
constexpr auto kLongestBreath = 20ms;
constexpr auto kLookAgain = 1s; // for another process that wrote a log and is gone
constexpr auto kSettlePatience = 5s;
constexpr auto kTakePatience = 10s; // for whoever has an exec to let it go
constexpr auto kEndPatience = 10s;
constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

SteadyTime now() { return system_clock().steady(); }

Result<int> pid_in(const keeping::ExecLog& log)
{
    BERTH_TRY(const auto first, log.records(0, 1));
    return first.empty() ? 0 : first.front().status;
}

} // namespace

std::string there(const Layout& layout, const std::string& path)
{
    const std::string home = policy::Roots{}.home;
    if (path == home) return layout.work;
    return path.starts_with(home + "/") ? layout.work + path.substr(home.size()) : path;
}

Task<Status> ExecServerBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Status {
        BERTH_CHECK(validate(spec));
        if (!spec.user.empty() && spec.user != instance.record.spec.user)
            return unsupported(Operation::Users, name());
        return begin_exec(instance, spec);
    });
}

Status ExecServerBackend::begin_exec(const Instance& instance, const ExecSpec& spec)
{
    const auto& sandbox = instance.record.spec;
    BERTH_TRY(const auto relay, ground_->relay());
    const auto layout = layout_of(instance.layout.root, instance.native, relay);
    if (spec.policy) BERTH_CHECK(policy::check_narrower(*spec.policy, sandbox.policy, roots_of(layout)));
    const auto& policy = spec.policy ? *spec.policy : sandbox.policy;
    BERTH_TRY(const auto deeper, find_deeper(*server_, policy, sandbox.policy, layout));
    BERTH_TRY(const auto confines, confine(policy, sandbox.policy, layout, deeper));
    if (spec.policy) {
        auto narrowed = sandbox;
        narrowed.policy = *spec.policy;
        BERTH_CHECK(admit(narrowed));
        BERTH_CHECK(ground_->prove(*spec.policy));
    }
    auto env = sandbox.env;
    for (const auto& [name, value] : spec.env) env[name] = value;
    env.try_emplace("PATH", kPath);
    env.try_emplace("HOME", layout.work);
    env.try_emplace("USER", sandbox.user);
    if (sandbox.policy.files.empty()) env.try_emplace("TMPDIR", layout.tmp);
    if (spec.terminal) env.try_emplace("TERM", "xterm-256color");
    std::string cwd = spec.cwd.empty() ? sandbox.workdir : spec.cwd;
    cwd = cwd.empty() ? layout.work : there(layout, cwd);

    BERTH_TRY(const auto directory, state_.make_instance(instance.native));
    const keeping::ExecStart how{.user = sandbox.user, .input = spec.input == ExecSpec::Stdin::Open};
    BERTH_TRY(auto own, keeping::make_exec(directory.get(), spec.id, how));
    const auto begin = [&]() -> Result<RunningPtr> {
        const auto streams =
            spec.terminal ? keeping::ExecLog::Streams::Terminal : keeping::ExecLog::Streams::Separate;
        BERTH_TRY(auto claim, keeping::claim_log(own.get()));
        BERTH_TRY(auto log, keeping::ExecLog::create(own.get(), streams));
        BERTH_TRY(auto writer, keeping::LogWriter::begin(std::move(log), spec.log_limit));
        auto running =
            std::make_shared<RunningExec>(server_->config(), RunningExec::Wish{.native = instance.native,
                                                                               .exec = spec.id,
                                                                               .directory = std::move(own),
                                                                               .claim = std::move(claim),
                                                                               .writer = std::move(writer)});
        BERTH_CHECK(running->start(spec, cwd, layout, confines, env));
        return running;
    };
    auto running = begin();
    if (!running) {
        // What could not be started is no exec.
        (void)keeping::remove_exec(directory.get(), spec.id);
        return std::unexpected(std::move(running).error());
    }
    std::vector<RunningPtr> over; // their threads end without the lock
    const std::scoped_lock lock(mutex_);
    for (auto at = running_.begin(); at != running_.end();) {
        if (!at->second->done()) {
            ++at;
            continue;
        }
        over.push_back(std::move(at->second));
        at = running_.erase(at);
    }
    running_[spec.id] = *std::move(running);
    return {};
}

/// An empty descriptor: somebody else has it, and may keep it.
Result<UniqueFd> ExecServerBackend::claim(int exec_directory, Act act)
{
    const auto until = now() + kTakePatience;
    for (;;) {
        BERTH_TRY(auto mine, keeping::claim_log(exec_directory));
        if (mine || act == Act::Read) return mine;
        BERTH_CHECK(ask_for_it(exec_directory));
        if (now() >= until) {
            stop_asking(exec_directory);
            return fail(Code::Unavailable, "another process has the exec and does not let it go");
        }
        std::this_thread::sleep_for(10ms);
    }
}

Result<keeping::ExecLog> ExecServerBackend::attend(const std::string& native, const std::string& exec,
                                                   Act act, RunningPtr& ours)
{
    BERTH_TRY(const auto directory, state_.instance(native));
    BERTH_TRY(auto log, keeping::open_log(directory.get(), exec));
    BERTH_TRY(const bool closed, log.closed());
    if (closed) return log;
    RunningPtr over;
    {
        const std::scoped_lock lock(mutex_);
        if (const auto at = running_.find(exec); at != running_.end()) {
            ours = at->second;
            if (!ours->done() || (ours->lost() && act == Act::Read)) {
                // It was out of reach; whoever asks the next time begins anew.
                if (ours->lost()) running_.erase(at);
                return log;
            }
            // Ended, out of reach, or let go to somebody who asked for it.
            over = std::move(at->second);
            running_.erase(at);
            ours.reset();
        }
    }
    over.reset();
    BERTH_TRY(auto own, keeping::open_exec(directory.get(), exec));
    BERTH_TRY(auto mine, claim(own.get(), act));
    if (!mine) return log; // somebody else writes it
    if (act == Act::Take) stop_asking(own.get());
    BERTH_TRY(auto written, keeping::open_log(directory.get(), exec, keeping::ExecLog::Access::Repair));
    BERTH_TRY(const bool ended_meanwhile, written.closed());
    if (ended_meanwhile) return log;
    BERTH_TRY(const auto begun, written.records(0, 1));
    // Its starter was killed before the server had answered; its session ends by itself.
    if (begun.empty()) {
        BERTH_CHECK(written.repair(system_clock().now()));
        return log;
    }
    BERTH_TRY(auto writer, keeping::LogWriter::go_on(std::move(written)));
    BERTH_TRY(auto* const server, this->server());
    ours = std::make_shared<RunningExec>(server->config(), RunningExec::Wish{.native = native,
                                                                             .exec = exec,
                                                                             .directory = std::move(own),
                                                                             .claim = std::move(mine),
                                                                             .writer = std::move(writer)});
    BERTH_CHECK(ours->go_on());
    const std::scoped_lock lock(mutex_);
    running_[exec] = ours;
    return log;
}

Result<ExecServerBackend::RunningPtr> ExecServerBackend::taken(const std::string& native,
                                                               const std::string& exec)
{
    RunningPtr ours;
    BERTH_TRY(const auto log, attend(native, exec, Act::Take, ours));
    std::uint64_t at = 0;
    BERTH_TRY(const auto status, keeping::find_exit(log, at));
    if (status || !ours) return fail(Code::Conflict, "{} has ended", exec);
    return ours;
}

Task<Result<std::vector<ExecEvent>>> ExecServerBackend::read_events(SandboxHandle sandbox, std::string exec,
                                                                    std::uint64_t from, SteadyTime until)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
        RunningPtr ours;
        const auto look = [&](const std::string& native) -> Result<keeping::ExecFollower> {
            BERTH_TRY(auto log, attend(native, exec, Act::Read, ours));
            return keeping::ExecFollower::read(std::move(log), from);
        };
        BERTH_CO_TRY(auto follower, co_await here(sandbox, look));
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

Task<Result<std::optional<Ended>>> ExecServerBackend::wait(SandboxHandle sandbox, std::string exec,
                                                           SteadyTime until)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    std::chrono::milliseconds breath = kFirstBreath;
    std::uint64_t at = 0;
    for (;;) {
        RunningPtr ours;
        const auto look = [&](const std::string& native) -> Result<std::optional<ExitStatus>> {
            BERTH_TRY(const auto log, attend(native, exec, Act::Read, ours));
            return keeping::find_exit(log, at);
        };
        const auto time = now();
        BERTH_CO_TRY(const auto status, co_await here(sandbox, look));
        if (status) co_return Ended{.status = *status, .struck = {}};
        if (time >= until) co_return std::optional<Ended>{};
        if (ours)
            if (const auto lost = ours->lost()) co_return std::unexpected(*lost);
        timer.expires_at(std::min(until, now() + breath));
        co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
        breath = std::min<std::chrono::milliseconds>(breath * 2, kLongestBreath);
    }
}

Task<Status> ExecServerBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto running, taken(native, exec));
        return running->signal(signo);
    });
}

Task<Status> ExecServerBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        const auto running = taken(native, exec);
        if (!running && running.error().code == Code::Conflict) return {};
        if (!running) return std::unexpected(running.error());
        auto done = (*running)->kill();
        if (!done && done.error().code == Code::Conflict) return {};
        return done;
    });
}

Task<Result<std::size_t>> ExecServerBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                         std::uint64_t write_id, std::string bytes)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Result<std::size_t> {
        BERTH_TRY(const auto running, taken(native, exec));
        BERTH_CHECK(takes_input(native, exec));
        return running->write(write_id, bytes);
    });
}

Task<Status> ExecServerBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto running, taken(native, exec));
        BERTH_CHECK(takes_input(native, exec));
        return running->close_input();
    });
}

Status ExecServerBackend::takes_input(const std::string& native, const std::string& exec)
{
    BERTH_TRY(const auto directory, state_.instance(native));
    BERTH_TRY(const auto own, keeping::open_exec(directory.get(), exec));
    BERTH_TRY(const auto start, keeping::read_start(own.get()));
    BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
    if (start.input || log.terminal()) return {};
    return fail(Code::Conflict, "{} was started without input", exec);
}

Task<Status> ExecServerBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto directory, state_.instance(native));
        BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
        if (!log.terminal()) return fail(Code::Invalid, "{} has no terminal", exec);
        BERTH_TRY(const auto running, taken(native, exec));
        return running->resize(size);
    });
}

Task<Result<std::vector<ExecInfo>>> ExecServerBackend::execs(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<std::vector<ExecInfo>> {
        const auto directory = state_.instance(instance.native);
        if (!directory && directory.error().code == Code::NotFound) return std::vector<ExecInfo>{};
        if (!directory) return std::unexpected(directory.error());
        BERTH_TRY(const auto all, keeping::list_logs(directory->get(), keeping::LogKeeper::Lives));
        bool adopted = false;
        for (const auto& one : all) {
            if (!one.running) continue;
            RunningPtr ours;
            BERTH_TRY([[maybe_unused]] const auto log, attend(instance.native, one.id, Act::Read, ours));
            adopted = true;
        }
        if (!adopted) return all;
        return keeping::list_logs(directory->get(), keeping::LogKeeper::Lives);
    });
}

Task<Status> ExecServerBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        RunningPtr before;
        {
            const std::scoped_lock lock(mutex_);
            if (const auto at = running_.find(exec); at != running_.end()) before = at->second;
        }
        if (before)
            if (const auto lost = before->lost()) return std::unexpected(*lost);
        RunningPtr ours;
        BERTH_TRY(const auto log, attend(native, exec, Act::Read, ours));
        // One that another process has left: is it still there?
        if (ours && ours != before) ours->wait_done(now() + kSettlePatience);
        return log.sync();
    });
}

Task<Result<int>> ExecServerBackend::exec_pid(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Result<int> {
        BERTH_TRY(const auto directory, state_.instance(native));
        BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
        BERTH_TRY(const int pid, pid_in(log));
        if (pid <= 0) return fail(Code::NotFound, "the process of {} is not known", exec);
        return pid;
    });
}

/// Whatever still runs of a sandbox, as far as it was started from this machine.
Status ExecServerBackend::end_execs(const std::string& native)
{
    const auto directory = state_.instance(native);
    if (!directory && directory.error().code == Code::NotFound) return {};
    if (!directory) return std::unexpected(directory.error());
    const auto all = keeping::list_logs(directory->get(), keeping::LogKeeper::Lives);
    if (!all && all.error().code == Code::NotFound) return {}; // somebody else destroys it, too
    if (!all) return std::unexpected(all.error());
    std::vector<RunningPtr> ending;
    for (const auto& one : *all) {
        if (!one.running) continue;
        const auto running = taken(native, one.id);
        if (!running) continue; // it has ended, or nobody can reach it any more
        if ((*running)->kill()) ending.push_back(*running);
    }
    for (const auto& one : ending) one->wait_done(now() + kEndPatience);
    std::vector<RunningPtr> over; // their threads end without the lock
    const std::scoped_lock lock(mutex_);
    for (auto at = running_.begin(); at != running_.end();) {
        if (at->second->native() != native) {
            ++at;
            continue;
        }
        over.push_back(std::move(at->second));
        at = running_.erase(at);
    }
    return {};
}

} // namespace berth::exec_server
