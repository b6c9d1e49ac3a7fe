// The execs of a sandbox of E2B's. Their logs lie on this machine, written by whichever process is connected.

#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backend/e2b/command.hpp"
#include "backend/e2b/e2b_backend.hpp"
#include "base/strings.hpp"
#include "keeping/exec_follower.hpp"
#include "keeping/exec_logs.hpp"

namespace berth::e2b_client {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kFirstBreath = 1ms;
constexpr auto kLongestBreath = 20ms;
constexpr auto kLookAgain = 1s; // for another process that wrote a log and is gone
constexpr auto kSettlePatience = 5s;

// Everything that descends from "$1", and everything of its session where it leads one.
constexpr std::string_view kKillTree = R"(
p=$1
list() { for f in /proc/[0-9]*/stat; do
q=${f#/proc/}; q=${q%/stat}; read -r s < "$f" || continue; s=${s##*) }; set -- $s; echo "$q $2 $4"
done 2>/dev/null; }
i=0
while [ $i -lt 10 ]; do
i=$((i+1)); all=$(list); found=" $p "; more=yes
while [ $more = yes ]; do more=no
while read -r q a s; do
case "$found" in *" $q "*) continue;; esac
[ "$q" != $$ ] && [ "$a" != $$ ] || continue
[ "$s" = "$p" ] || case "$found" in *" $a "*) ;; *) continue;; esac
found="$found$q "; more=yes
done <<END
$all
END
done
kill -9 $found 2>/dev/null
[ "$found" != " $p " ] || break
done
exit 0
)";

SteadyTime now() { return system_clock().steady(); }

e2b::ProcessCall call_of(const std::string& exec)
{
    e2b::ProcessCall out;
    out.process = exec;
    return out;
}

/// The number of the process inside; 0 when that was never told.
Result<int> pid_in(const keeping::ExecLog& log)
{
    BERTH_TRY(const auto first, log.records(0, 1));
    return first.empty() ? 0 : first.front().status;
}

} // namespace

Task<Status> E2bBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        BERTH_CHECK(validate(spec));
        if (spec.policy) return unsupported(Operation::ExecPolicy, name());
        return begin_exec(cloud, id, spec);
    });
}

Status E2bBackend::begin_exec(Cloud& cloud, const std::string& id, const ExecSpec& spec)
{
    return cloud.with(id, [&](const Session& session) -> Status {
        BERTH_TRY(const auto directory, state_.make_instance(id));
        const keeping::ExecStart how{.user = spec.user.empty() ? session.user : spec.user,
                                     .input = spec.input == ExecSpec::Stdin::Open};
        BERTH_TRY(const auto own, keeping::make_exec(directory.get(), spec.id, how));
        const auto begin = [&]() -> Result<RunningPtr> {
            const auto streams =
                spec.terminal ? keeping::ExecLog::Streams::Terminal : keeping::ExecLog::Streams::Separate;
            BERTH_TRY(auto claim, keeping::claim_log(own.get()));
            BERTH_TRY(auto log, keeping::ExecLog::create(own.get(), streams));
            BERTH_TRY(auto writer, keeping::LogWriter::begin(std::move(log), spec.log_limit));
            auto running = std::make_shared<RunningExec>(cloud, RunningExec::Wish{.instance = id,
                                                                                  .exec = spec.id,
                                                                                  .user = how.user,
                                                                                  .writer = std::move(writer),
                                                                                  .claim = std::move(claim)});
            BERTH_CHECK(running->start(session, start_of(spec, session.workdir), spec));
            return running;
        };
        auto running = begin();
        if (!running) {
            // What could not be started is no exec.
            (void)keeping::remove_exec(directory.get(), spec.id);
            return std::unexpected(std::move(running).error());
        }
        const std::scoped_lock lock(mutex_);
        std::erase_if(running_, [](const auto& one) { return one.second->done(); });
        std::erase_if(inputs_, [&](const auto& one) {
            const auto status = ended(one.second->instance(), one.first);
            return !status || *status;
        });
        running_[spec.id] = *std::move(running);
        if (!keep_alive_)
            keep_alive_ = std::make_unique<KeepAlive>(cloud, [this] {
                std::set<std::string> busy;
                const std::scoped_lock held(mutex_);
                for (const auto& [exec, one] : running_)
                    if (!one->done()) busy.insert(one->instance());
                return busy;
            });
        return {};
    });
}

Result<keeping::ExecLog> E2bBackend::attend(Cloud& cloud, const std::string& id, const std::string& exec,
                                            RunningPtr& ours)
{
    BERTH_TRY(const auto directory, state_.instance(id));
    BERTH_TRY(auto log, keeping::open_log(directory.get(), exec));
    BERTH_TRY(const bool closed, log.closed());
    if (closed) return log;
    const std::scoped_lock lock(mutex_);
    if (const auto at = running_.find(exec); at != running_.end()) {
        ours = at->second;
        if (!ours->lost()) return log;
        // It was out of reach; whoever asks now begins anew.
        running_.erase(at);
    }
    if (ours) return log;
    BERTH_TRY(const auto own, keeping::open_exec(directory.get(), exec));
    BERTH_TRY(auto claim, keeping::claim_log(own.get()));
    if (!claim) return log; // somebody else writes it
    BERTH_TRY(auto written, keeping::open_log(directory.get(), exec, keeping::ExecLog::Access::Repair));
    BERTH_TRY(const bool ended_meanwhile, written.closed());
    if (ended_meanwhile) return log;
    BERTH_TRY(const auto begun, written.records(0, 1));
    // Its starter was killed before the daemon had answered.
    if (begun.empty()) {
        BERTH_CHECK(written.repair(system_clock().now()));
        return log;
    }
    BERTH_TRY(const auto start, keeping::read_start(own.get()));
    BERTH_TRY(auto writer, keeping::LogWriter::go_on(std::move(written)));
    ours = std::make_shared<RunningExec>(cloud, RunningExec::Wish{.instance = id,
                                                                  .exec = exec,
                                                                  .user = start.user,
                                                                  .writer = std::move(writer),
                                                                  .claim = std::move(claim)});
    ours->go_on();
    running_[exec] = ours;
    return log;
}

Task<Result<std::vector<ExecEvent>>> E2bBackend::read_events(SandboxHandle sandbox, std::string exec,
                                                             std::uint64_t from, SteadyTime until)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
        RunningPtr ours;
        const auto look = [&](Cloud& cloud, const std::string& id) -> Result<keeping::ExecFollower> {
            BERTH_TRY(auto log, attend(cloud, id, exec, ours));
            return keeping::ExecFollower::read(std::move(log), from);
        };
        BERTH_CO_TRY(auto follower, co_await with(sandbox, look));
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
                break;
            }
            timer.expires_at(std::min(until, now() + breath));
            co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
            breath = std::min<std::chrono::milliseconds>(breath * 2, kLongestBreath);
        }
    }
}

Task<Result<std::optional<Ended>>> E2bBackend::wait(SandboxHandle sandbox, std::string exec, SteadyTime until)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    std::chrono::milliseconds breath = kFirstBreath;
    std::uint64_t at = 0;
    for (;;) {
        RunningPtr ours;
        const auto look = [&](Cloud& cloud, const std::string& id) -> Result<std::optional<ExitStatus>> {
            BERTH_TRY(const auto log, attend(cloud, id, exec, ours));
            return keeping::find_exit(log, at);
        };
        const auto time = now();
        BERTH_CO_TRY(const auto status, co_await with(sandbox, look));
        if (status) co_return Ended{.status = *status, .struck = {}};
        if (time >= until) co_return std::optional<Ended>{};
        if (ours)
            if (const auto lost = ours->lost()) co_return std::unexpected(*lost);
        timer.expires_at(std::min(until, now() + breath));
        co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
        breath = std::min<std::chrono::milliseconds>(breath * 2, kLongestBreath);
    }
}

/// Nothing while it runs, as far as is known here.
Result<std::optional<ExitStatus>> E2bBackend::ended(const std::string& id, const std::string& exec)
{
    BERTH_TRY(const auto directory, state_.instance(id));
    BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
    std::uint64_t at = 0;
    return keeping::find_exit(log, at);
}

Status E2bBackend::send_signal(Cloud& cloud, const std::string& id, const std::string& exec, int signo)
{
    BERTH_TRY(const auto status, ended(id, exec));
    if (status) return fail(Code::Conflict, "{} has ended", exec);
    if (signo == SIGTERM || signo == SIGKILL) {
        auto call = call_of(exec);
        call.signal = signo;
        return cloud.with(id, [&](const Session& session) -> Status {
            BERTH_TRY([[maybe_unused]] const auto answer,
                      cloud.envd().unary(session, "process.Process/SendSignal", e2b::process_request(call)));
            return {};
        });
    }
    // The daemon knows two signals; a command of the same user knows them all.
    BERTH_TRY(const auto directory, state_.instance(id));
    BERTH_TRY(const auto own, keeping::open_exec(directory.get(), exec));
    BERTH_TRY(const auto start, keeping::read_start(own.get()));
    BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
    BERTH_TRY(const int pid, pid_in(log));
    if (pid <= 0) return fail(Code::Unavailable, "the process of {} is not known", exec);
    return cloud.with(id, [&](const Session& session) -> Status {
        const Command command{.script = "kill -s \"$1\" -- \"$2\" 2>&1 || kill -\"$1\" \"$2\"",
                              .arguments = {std::to_string(signo), std::to_string(pid)},
                              .user = start.user,
                              .out = {}};
        BERTH_TRY(const auto end, run_command(cloud.envd(), session, command));
        if (!end.status.success()) return std::unexpected(error_of_words(end.err, "signalling " + exec));
        return {};
    });
}

Status E2bBackend::kill_tree(Cloud& cloud, const std::string& id, const std::string& exec)
{
    BERTH_TRY(const auto directory, state_.instance(id));
    BERTH_TRY(const auto own, keeping::open_exec(directory.get(), exec));
    BERTH_TRY(const auto start, keeping::read_start(own.get()));
    BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
    BERTH_TRY(const int pid, pid_in(log));
    std::uint64_t at = 0;
    BERTH_TRY(const auto status, keeping::find_exit(log, at));
    // A number may belong to another process by now.
    if (status || pid <= 1) return {};
    auto call = call_of(exec);
    call.signal = SIGKILL;
    return cloud.with(id, [&](const Session& session) -> Status {
        const Command command{.script = std::string(kKillTree),
                              .arguments = {std::to_string(pid)},
                              .user = start.user,
                              .out = {}};
        BERTH_TRY([[maybe_unused]] const auto end, run_command(cloud.envd(), session, command));
        const auto done =
            cloud.envd().unary(session, "process.Process/SendSignal", e2b::process_request(call));
        if (!done && done.error().code != Code::NotFound) return std::unexpected(done.error());
        return {};
    });
}

Task<Status> E2bBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        return send_signal(cloud, id, exec, signo);
    });
}

Task<Status> E2bBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(
        sandbox, [&](Cloud& cloud, const std::string& id) -> Status { return kill_tree(cloud, id, exec); });
}

Result<std::shared_ptr<ExecInput>> E2bBackend::input_of(Cloud& cloud, const std::string& id,
                                                        const std::string& exec)
{
    BERTH_TRY(const auto status, ended(id, exec));
    if (status) return fail(Code::Conflict, "{} has ended", exec);
    BERTH_TRY(const auto directory, state_.instance(id));
    BERTH_TRY(const auto own, keeping::open_exec(directory.get(), exec));
    BERTH_TRY(const auto start, keeping::read_start(own.get()));
    BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
    if (!start.input && !log.terminal()) return fail(Code::Conflict, "{} was started without input", exec);
    const std::scoped_lock lock(mutex_);
    auto& slot = inputs_[exec];
    if (!slot) slot = std::make_shared<ExecInput>(cloud, id, exec, log.terminal());
    return slot;
}

Task<Result<std::size_t>> E2bBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                  std::uint64_t write_id, std::string bytes)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Result<std::size_t> {
        BERTH_TRY(const auto input, input_of(cloud, id, exec));
        return input->write(write_id, bytes);
    });
}

Task<Status> E2bBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        BERTH_TRY(const auto input, input_of(cloud, id, exec));
        return input->close(write_id);
    });
}

Task<Status> E2bBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        BERTH_TRY(const auto directory, state_.instance(id));
        BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
        if (!log.terminal()) return fail(Code::Invalid, "{} has no terminal", exec);
        auto call = call_of(exec);
        call.pty = e2b::PtySize{.columns = size.columns, .rows = size.rows};
        return cloud.with(id, [&](const Session& session) -> Status {
            BERTH_TRY([[maybe_unused]] const auto answer,
                      cloud.envd().unary(session, "process.Process/Update", e2b::process_request(call)));
            return {};
        });
    });
}

Task<Result<std::vector<ExecInfo>>> E2bBackend::execs(SandboxHandle sandbox)
{
    co_return co_await with(
        sandbox, [&](Cloud& cloud, const std::string& id) -> Result<std::vector<ExecInfo>> {
            const auto directory = state_.instance(id);
            if (!directory && directory.error().code == Code::NotFound) return std::vector<ExecInfo>{};
            if (!directory) return std::unexpected(directory.error());
            BERTH_TRY(auto all, keeping::list_logs(directory->get(), keeping::LogKeeper::Lives));
            bool adopted = false;
            for (const auto& one : all) {
                if (!one.running) continue;
                RunningPtr ours;
                BERTH_TRY([[maybe_unused]] const auto log, attend(cloud, id, one.id, ours));
                adopted = true;
            }
            if (!adopted) return all;
            return keeping::list_logs(directory->get(), keeping::LogKeeper::Lives);
        });
}

Task<Status> E2bBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        RunningPtr before;
        {
            const std::scoped_lock lock(mutex_);
            if (const auto at = running_.find(exec); at != running_.end()) before = at->second;
        }
        if (before)
            if (const auto lost = before->lost()) return std::unexpected(*lost);
        RunningPtr ours;
        BERTH_TRY(const auto log, attend(cloud, id, exec, ours));
        // One that another process has left: is it still there?
        if (ours && ours != before) ours->wait_done(now() + kSettlePatience);
        BERTH_CHECK(log.sync());
        BERTH_TRY(const bool closed, log.closed());
        if (!closed) return {};
        BERTH_TRY(const auto directory, state_.instance(id));
        return keeping::trim_logs_after(directory.get(), exec);
    });
}

Task<Result<int>> E2bBackend::exec_pid(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(sandbox, [&](Cloud&, const std::string& id) -> Result<int> {
        BERTH_TRY(const auto directory, state_.instance(id));
        BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
        BERTH_TRY(const int pid, pid_in(log));
        if (pid <= 0) return fail(Code::NotFound, "the process of {} is not known", exec);
        return pid;
    });
}

} // namespace berth::e2b_client
