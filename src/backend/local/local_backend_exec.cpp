// Execs of the local backend. The rule of its locks: a sandbox is locked for as long as
// one question takes; waiting for output and moving file contents happens without.

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backend/local/instance_lock.hpp"
#include "backend/local/local_backend_with.hpp"
#include "backend/local/settle_log.hpp"
#include "backend/local/shared.hpp"
#include "base/scope_exit.hpp"
#include "keeping/log_wait.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 5ms; // a chatty exec is not looked at for its end with each line
constexpr std::size_t kPromptChecks = 3;
constexpr auto kClosing = 1s; // from the exit of a command to the end of its streams

SteadyTime now() { return system_clock().steady(); }

/// The end of an exec whose keeper is gone: as the log has it, or unknown.
Result<std::optional<Ended>> ended_in_log(const StateDir& state, const std::string& native,
                                          const std::string& exec)
{
    BERTH_CHECK(settle_log(state, native, exec));
    BERTH_TRY(const auto directory, open_instance(state, native));
    BERTH_TRY(const auto log, open_log(directory.get(), exec));
    std::uint64_t at = 0;
    BERTH_TRY(const auto status, find_exit(log, at));
    if (!status) return std::optional<Ended>{};
    return Ended{.status = *status, .struck = {}};
}

bool is_stopped(const Error& error) { return error.code == Code::Conflict; }

} // namespace

Task<Status> LocalBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    co_return co_await pool_.call([&] { return exec_now(sandbox, spec, Reader::Unknown); });
}

/// It runs, or has run, also where nobody can tell its number any more.
void LocalBackend::note_pid(const std::string& exec, const Result<int>& pid)
{
    constexpr std::size_t most = 1024;
    if (!pid) return;
    const std::scoped_lock lock(pids_mutex_);
    pids_[exec] = *pid;
    if (pids_.size() > most) pids_.erase(pids_.begin()); // ids are in the order of their beginnings
}

Status LocalBackend::exec_now(const SandboxHandle& sandbox, const ExecSpec& spec, Reader reader)
{
    bool next = false;
    const ScopeExit then([&] {
        if (next) ahead_.begun(sandbox.native);
    });
    return with_now(sandbox, [&](Sandbox& s) -> Status {
        UniqueFd attendance;
        BERTH_CHECK(s.exec(spec, reader == Reader::Attends ? &attendance : nullptr));
        next = s.wants_next();
        if (!spec.policy) note_pid(spec.id, s.exec_pid(spec.id));
        if (reader == Reader::Unknown) return {};
        // Where that fails, whoever reads the log is told.
        if (auto follower = s.follow(spec.id, 0)) {
            follower->attend(std::move(attendance));
            expect_reader(sandbox.native, spec.id, *std::move(follower));
        }
        return {};
    });
}

void LocalBackend::with_held(const std::string& native, void (Sandbox::*work)())
{
    const auto place = held_.find(native);
    if (!place) return;
    const std::scoped_lock lock(place->mutex);
    if (place->retired || !place->sandbox) return;
    ((*place->sandbox).*work)();
    place->sandbox->rest();
}

Task<Result<ExecFollower>> LocalBackend::follower_of(SandboxHandle sandbox, std::string exec,
                                                     std::uint64_t from)
{
    const auto follow = [&](Sandbox& s) { return s.follow(exec, from); };
    auto follower = co_await with(sandbox, follow);
    if (follower || !is_stopped(follower.error())) co_return follower;
    co_return co_await pool_.call([&]() -> Result<ExecFollower> {
        BERTH_CHECK(settle_log(state_, sandbox.native, exec));
        BERTH_TRY(const auto directory, open_instance(state_, sandbox.native));
        BERTH_TRY(auto log, open_log(directory.get(), exec));
        return ExecFollower::read(std::move(log), from);
    });
}

/// Leaves nothing in a workspace that stood there for names. They are held until the command's streams have
/// ended, mostly a moment after itself; where something it left goes on to write, they go with the sandbox.
Task<void> LocalBackend::tidy_up(SandboxHandle sandbox, std::string exec, ExecFollower& follower)
{
    const auto holds = [&](Sandbox& s) -> Result<bool> { return s.holds_names(exec); };
    const auto held = co_await with(sandbox, holds);
    if (!held || !*held) co_return;
    const auto closed = [&]() -> Result<bool> {
        BERTH_TRY(const auto directory, open_instance(state_, sandbox.native));
        BERTH_TRY(const auto log, open_log(directory.get(), exec));
        return log.closed();
    };
    for (const auto until = now() + kClosing; now() < until && clear_growth(follower);) {
        if (const auto done = co_await pool_.call(closed); !done || *done) break;
        co_await log_grows(follower, until);
    }
    const auto let_go = [&](Sandbox& s) -> Status {
        s.let_go(exec);
        return {};
    };
    (void)co_await with(sandbox, let_go);
}

Task<Result<std::optional<Ended>>> LocalBackend::wait(SandboxHandle sandbox, std::string exec,
                                                      SteadyTime until)
{
    const auto in_log = [&] { return ended_in_log(state_, sandbox.native, exec); };
    const auto check = [&](Sandbox& s) -> Result<std::optional<Ended>> {
        BERTH_TRY(const auto status, s.wait(exec, 0ms));
        if (!status) return std::optional<Ended>{};
        BERTH_TRY(auto ended, s.wait_or_kill(exec, 0ms)); // it has ended: nothing is killed
        return Ended{.status = ended.status, .struck = std::move(ended.struck)};
    };
    const auto follow = [&](Sandbox& s) { return s.follow(exec, 0); };
    auto follower = co_await with(sandbox, follow);
    if (!follower && is_stopped(follower.error())) co_return co_await pool_.call(in_log);
    if (!follower) co_return std::unexpected(std::move(follower).error());
    boost::asio::steady_timer breath(co_await boost::asio::this_coro::executor);
    for (std::size_t checks = 1;; ++checks) {
        const bool last = now() >= until;
        const bool alive = clear_growth(*follower);
        if (alive || follower->keeper_descriptor() < 0) {
            auto ended = co_await with(sandbox, check);
            if (ended && *ended) co_await tidy_up(sandbox, exec, *follower);
            if (ended && (*ended || last)) co_return ended;
            if (!ended && !is_stopped(ended.error()) && ended.error().code != Code::NotFound) co_return ended;
        }
        if (!alive) co_return co_await pool_.call(in_log);
        co_await log_grows(*follower, until);
        if (checks < kPromptChecks) continue;
        breath.expires_after(kCheckInterval);
        co_await breath.async_wait(boost::asio::use_awaitable);
    }
}

Task<Status> LocalBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.signal(exec, signo); });
}

Task<Status> LocalBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.kill(exec); });
}

Task<Result<std::size_t>> LocalBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                    std::uint64_t write_id, std::string bytes)
{
    const auto write = [&](Sandbox& s) { return s.write_input(exec, write_id, bytes); };
    co_return co_await with(sandbox, write);
}

Task<Status> LocalBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.close_input(exec, write_id); });
}

Task<Status> LocalBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.resize(exec, size); });
}

Task<bool> LocalBackend::exec_refused(SandboxHandle sandbox, std::string exec)
{
    const auto look = [&](Sandbox& s) -> Result<bool> { return s.refused(exec); };
    co_return (co_await with(sandbox, look)).value_or(false);
}

Task<Result<int>> LocalBackend::exec_pid(SandboxHandle sandbox, std::string exec)
{
    {
        const std::scoped_lock lock(pids_mutex_);
        if (const auto known = pids_.find(exec); known != pids_.end()) co_return known->second;
    }
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.exec_pid(exec); });
}

Task<Result<Usage>> LocalBackend::usage(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](Sandbox& s) -> Result<Usage> { return s.usage(); });
}

Task<Result<Measured>> LocalBackend::measure(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](Sandbox& s) -> Result<Measured> { return s.measured(); });
}

Task<Result<std::vector<ExecInfo>>> LocalBackend::execs(SandboxHandle sandbox)
{
    auto living = co_await with(sandbox, [&](Sandbox& s) { return s.all_execs(); });
    if (living || !is_stopped(living.error())) co_return living;
    co_return co_await pool_.call([&]() -> Result<std::vector<ExecInfo>> {
        BERTH_TRY(const auto directory, open_instance(state_, sandbox.native));
        return list_logs(directory.get(), LogKeeper::Gone);
    });
}

Task<Status> LocalBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await pool_.call([&] { return settle_log(state_, sandbox.native, exec); });
}

} // namespace berth::local
