#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backend/docker/docker_backend_with.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/log_wait.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 5ms; // a chatty exec is not looked at for its end with each line
constexpr std::size_t kPromptChecks = 3;

SteadyTime now() { return system_clock().steady(); }

bool is_stopped(const Error& error) { return error.code == Code::Conflict; }

} // namespace

Task<Status> DockerBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.exec(spec); });
}

Task<Result<keeping::ExecFollower>> DockerBackend::follower_of(SandboxHandle sandbox, std::string exec,
                                                               std::uint64_t from)
{
    const auto follow = [&](Sandbox& s) { return s.follow(exec, from); };
    auto follower = co_await with(sandbox, follow);
    if (follower || !is_stopped(follower.error())) co_return follower;
    co_return co_await pool_.call([&]() -> Result<keeping::ExecFollower> {
        BERTH_CHECK(settle_log(where(), sandbox.native, exec));
        BERTH_TRY(const auto directory, dirs_.open(sandbox.native, 0));
        BERTH_TRY(auto log, keeping::open_log(directory.get(), exec));
        return keeping::ExecFollower::read(std::move(log), from);
    });
}

Task<Result<std::optional<Ended>>> DockerBackend::wait(SandboxHandle sandbox, std::string exec,
                                                       SteadyTime until)
{
    BERTH_CO_TRY(auto follower, co_await follower_of(sandbox, exec, 0));
    std::uint64_t at = 0;
    const auto look = [&]() -> Result<std::optional<ExitStatus>> {
        BERTH_TRY(const auto directory, dirs_.open(sandbox.native, 0));
        BERTH_TRY(const auto log, keeping::open_log(directory.get(), exec));
        return keeping::find_exit(log, at);
    };
    std::optional<ExitStatus> status;
    boost::asio::steady_timer breath(co_await boost::asio::this_coro::executor);
    for (std::size_t checks = 1;; ++checks) {
        const bool last = now() >= until;
        const bool alive = keeping::clear_growth(follower);
        BERTH_CO_TRY(status, co_await pool_.call(look));
        if (status || (last && alive)) break;
        if (!alive) {
            if (auto settled = co_await settle_exec(sandbox, exec); !settled)
                co_return std::unexpected(std::move(settled).error());
            BERTH_CO_TRY(status, co_await pool_.call(look));
            break;
        }
        co_await keeping::log_grows(follower, until);
        if (checks < kPromptChecks) continue;
        breath.expires_after(kCheckInterval);
        co_await breath.async_wait(boost::asio::use_awaitable);
    }
    if (!status) co_return std::optional<Ended>{};
    Ended ended{.status = *status, .struck = {}};
    const auto ask = [&](Sandbox& s) -> Result<std::vector<std::string>> {
        s.forget(exec);
        return s.struck_by(exec);
    };
    if (auto struck = co_await with(sandbox, ask)) ended.struck = *std::move(struck);
    co_return ended;
}

Task<Status> DockerBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.signal(exec, signo); });
}

Task<Status> DockerBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.kill(exec); });
}

Task<Result<std::size_t>> DockerBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                     std::uint64_t write_id, std::string bytes)
{
    const auto write = [&](Sandbox& s) -> Result<std::size_t> {
        BERTH_TRY(const auto number, keeping::keeper_id(exec));
        return s.keeper().write_stdin(number, write_id, bytes);
    };
    co_return co_await with(sandbox, write);
}

Task<Status> DockerBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id)
{
    const auto close = [&](Sandbox& s) -> Status {
        BERTH_TRY(const auto number, keeping::keeper_id(exec));
        return s.keeper().close_stdin(number, write_id);
    };
    co_return co_await with(sandbox, close);
}

Task<Status> DockerBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    const auto resize = [&](Sandbox& s) -> Status {
        BERTH_TRY(const auto number, keeping::keeper_id(exec));
        return s.keeper().resize(number, size.rows, size.columns);
    };
    co_return co_await with(sandbox, resize);
}

Task<Result<std::vector<ExecInfo>>> DockerBackend::execs(SandboxHandle sandbox)
{
    const auto lives = co_await with(sandbox, [](Sandbox&) -> Status { return {}; });
    if (!lives && !is_stopped(lives.error())) co_return std::unexpected(lives.error());
    co_return co_await pool_.call([&]() -> Result<std::vector<ExecInfo>> {
        BERTH_TRY(const auto directory, dirs_.open(sandbox.native, 0));
        return keeping::list_logs(directory.get(),
                                  lives ? keeping::LogKeeper::Lives : keeping::LogKeeper::Gone);
    });
}

Task<Status> DockerBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await pool_.call([&] { return settle_log(where(), sandbox.native, exec); });
}

} // namespace berth::docker
