#include "server/e2b/start_command.hpp"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "server/e2b/account.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kFirstPause = 20ms;
constexpr auto kLongestPause = 500ms;

/// "sleep 20", as the SDKs write a wait for nothing in particular.
bool only_sleeps(std::string_view command)
{
    constexpr std::string_view kSleep = "sleep ";
    return command.starts_with(kSleep) &&
           command.find_first_not_of("0123456789.", kSleep.size()) == std::string_view::npos;
}

/// A start command runs, or has done its work; one that failed is nothing to be ready.
Task<Status> not_failed(gate::Ground& ground, SandboxRecord sandbox, std::string exec, std::string command)
{
    if (exec.empty()) co_return Status{};
    auto& lifecycle = ground.berth.lifecycle();
    BERTH_CO_TRY([[maybe_unused]] const auto running, co_await lifecycle.settle_execs(sandbox));
    BERTH_CO_TRY(const auto record, co_await lifecycle.find_exec(sandbox, exec));
    if (record.ended == WallTime{} || record.outcome == "exit 0") co_return Status{};
    co_return fail(Code::Invalid, "the start command '{}' failed: {}", printable(command, 100),
                   record.outcome);
}

} // namespace

Task<std::vector<std::string>> shell_of(gate::Ground& ground, SandboxRecord sandbox, std::string command)
{
    auto where = co_await ground.berth.lifecycle().backend(sandbox.backend);
    bool bash = false;
    if (where)
        bash = (co_await (*where)->stat_file(Lifecycle::handle(sandbox), {.path = "/bin/bash"})).has_value();
    co_return bash ? std::vector<std::string>{"/bin/bash", "-l", "-c", std::move(command)}
                   : std::vector<std::string>{"/bin/sh", "-c", std::move(command)};
}

Task<Result<std::string>> start_and_wait(gate::Ground& ground, SandboxRecord sandbox, StartWish wish)
{
    const auto until = system_clock().steady() + wish.patience;
    ExecSpec spec;
    spec.env = wish.env;
    spec.cwd = wish.defaults.workdir;
    BERTH_CO_CHECK(co_await run_as(ground, sandbox, wish.defaults.user, spec));
    std::string started;
    if (!wish.defaults.start_cmd.empty()) {
        spec.id = started = make_exec_id(system_clock());
        spec.argv = co_await shell_of(ground, sandbox, wish.defaults.start_cmd);
        ExecWish how;
        if (wish.first) how.first = [&] { return wish.first(started); };
        BERTH_CO_CHECK(co_await ground.berth.lifecycle().exec(sandbox, spec, std::move(how)));
    }
    const auto& ready = wish.defaults.ready_cmd;
    if (ready.empty() || (only_sleeps(ready) && !wish.sleeps)) co_return started;
    spec.argv = co_await shell_of(ground, sandbox, ready);
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (std::chrono::nanoseconds pause = kFirstPause;;
         pause = std::min<std::chrono::nanoseconds>(pause * 2, kLongestPause)) {
        spec.id = make_exec_id(system_clock());
        spec.timeout = std::max<std::chrono::nanoseconds>(until - system_clock().steady(), 1ms);
        BERTH_CO_TRY(const auto told, co_await ground.berth.exec(sandbox.id(), spec));
        BERTH_CO_CHECK(co_await not_failed(ground, sandbox, started, wish.defaults.start_cmd));
        if (told.status.success()) co_return started;
        if (system_clock().steady() + pause >= until)
            co_return fail(Code::DeadlineExceeded, "the ready command '{}' did not succeed in {}",
                           printable(ready, 100), show(wish.patience));
        timer.expires_after(pause);
        co_await timer.async_wait(as_value);
    }
}

} // namespace berth::e2b
