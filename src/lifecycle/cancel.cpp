#include "lifecycle/cancel.hpp"

#include <csignal>

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr auto kDeathPatience = 10s; // from SIGKILL to the kernel's word

SteadyTime now() { return system_clock().steady(); }

Task<bool> is_paused(Backend& backend, SandboxHandle sandbox)
{
    if (!backend.capabilities().can(Operation::Pause)) co_return false;
    const auto found = co_await backend.inspect(std::move(sandbox));
    co_return found && found->state == State::Paused;
}

/// KILL to what outlived its command. That nobody knows it any more, or that its sandbox stopped, is an end.
Task<Status> kill_left(Backend& backend, SandboxHandle sandbox, std::string exec)
{
    auto killed = co_await backend.kill(std::move(sandbox), std::move(exec));
    if (!killed && (killed.error().code == Code::NotFound || killed.error().code == Code::Conflict))
        co_return Status{};
    co_return killed;
}

} // namespace

Task<Result<ExecRecord>> cancel_exec(Lifecycle& lifecycle, SandboxRecord sandbox, ExecRecord exec,
                                     std::chrono::milliseconds grace)
{
    BERTH_CO_TRY(auto* const where, co_await lifecycle.backend(sandbox.backend));
    const auto handle = Lifecycle::handle(sandbox);
    if (exec.ended != WallTime{}) {
        BERTH_CO_CHECK(co_await kill_left(*where, handle, exec.id));
        co_return exec;
    }
    const bool paused = co_await is_paused(*where, handle);
    BERTH_CO_TRY(auto ended, co_await where->wait(handle, exec.id, SteadyTime{}));
    // One that cannot be asked is not waited for.
    if (!ended && !paused && grace > 0ms && co_await where->signal(handle, exec.id, SIGTERM)) {
        BERTH_CO_TRY(ended, co_await where->wait(handle, exec.id, now() + grace));
    }
    Status killed;
    if (ended) {
        killed = co_await kill_left(*where, handle, exec.id);
    } else {
        killed = co_await where->kill(handle, exec.id);
        // Also where it failed: somebody else's may have been faster.
        BERTH_CO_TRY(ended,
                     co_await where->wait(handle, exec.id, killed ? now() + kDeathPatience : SteadyTime{}));
        if (ended) killed = Status{};
    }
    if (ended) BERTH_CO_CHECK(co_await lifecycle.finish_exec(sandbox, exec.id, ended->status));
    if (!killed) co_return std::unexpected(killed.error());
    // Where whoever reaps it is frozen, too, it ends when its sandbox is resumed.
    if (!ended && !paused)
        co_return fail(Code::DeadlineExceeded,
                       "{} was sent SIGKILL and has not ended yet: berth inspect {} shows when it has",
                       exec.id, sandbox.id());
    co_return co_await lifecycle.find_exec(std::move(sandbox), exec.id);
}

} // namespace berth
