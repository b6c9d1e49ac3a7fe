#include "server/e2b/interpreter.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/scope_exit.hpp"
#include "server/e2b/account.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kPatience = 30s;
constexpr auto kPoll = 20ms;
constexpr char kRunner[] = "/tmp/.berth-interpreter.py";

Task<bool> listens(EnvdCall& call)
{
    const auto socket = co_await call.backend.dial(call.handle, kInterpreterPort);
    co_return socket.has_value();
}

Task<Result<std::string>> start(gate::Ground& ground, EnvdCall& call)
{
    auto& entry = *call.entry;
    ExecSpec spec;
    spec.id = make_exec_id(system_clock());
    spec.argv = {"python3", kRunner};
    spec.env = entry.env;
    spec.env["E2B_SANDBOX"] = "true";
    spec.env["E2B_SANDBOX_ID"] = entry.id;
    spec.env["E2B_TEMPLATE_ID"] = entry.template_id;
    spec.cwd = entry.workdir;
    BERTH_CO_CHECK(co_await run_as(ground, entry.record, entry.user, spec));
    BERTH_CO_CHECK(co_await call.backend.write_file(call.handle, {.path = kRunner, .user = spec.user},
                                                    std::string(interpreter_text()), 0644));
    BERTH_CO_CHECK(co_await ground.berth.lifecycle().exec(entry.record, spec));
    co_return spec.id;
}

} // namespace

Task<Status> ensure_interpreter(gate::Ground& ground, EnvdCall& call)
{
    if (co_await listens(call)) co_return Status{};
    auto entry = call.entry;
    const bool ours = !entry->interpreter_starts;
    entry->interpreter_starts = true;
    const ScopeExit done([&] {
        if (ours) entry->interpreter_starts = false;
    });
    std::string exec;
    if (ours) {
        BERTH_CO_TRY(exec, co_await start(ground, call));
    }
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const auto until = system_clock().steady() + kPatience;
    while (system_clock().steady() < until) {
        if (co_await listens(call)) co_return Status{};
        if (ours) {
            const auto ended = co_await call.backend.wait(call.handle, exec, system_clock().steady());
            if (ended && *ended) {
                (void)co_await ground.berth.lifecycle().finish_exec(entry->record, exec, (*ended)->status);
                co_return fail(Code::Unavailable,
                               "the code interpreter ended with {}: does the template have python3?",
                               to_string((*ended)->status));
            }
        } else if (!entry->interpreter_starts) {
            break;
        }
        timer.expires_after(kPoll);
        co_await timer.async_wait(as_value);
    }
    co_return fail(Code::Unavailable, "the code interpreter does not answer");
}

} // namespace berth::e2b
