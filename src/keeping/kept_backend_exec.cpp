#include "keeping/kept_backend.hpp"
#include "keeping/log_wait.hpp"

namespace berth::keeping {

namespace {

SteadyTime now() { return system_clock().steady(); }

} // namespace

Task<Result<std::vector<ExecEvent>>> KeptBackend::read_events(SandboxHandle sandbox, std::string exec,
                                                              std::uint64_t from, SteadyTime until)
{
    for (bool settled = false;; settled = true) {
        auto idle = followers_.take(sandbox.native, exec, from);
        auto made = idle ? Result<ExecFollower>(*std::move(idle)) : co_await follower_of(sandbox, exec, from);
        if (!made) co_return std::unexpected(std::move(made).error());
        ExecFollower& follower = *made;
        for (;;) {
            const auto started = now();
            const auto next = [&] { return follower.next(started); };
            // What a living command prints is in memory: a change of threads would cost more than to read it.
            auto read = follower.next_at_once();
            if (!read) read = co_await pool_.call(next);
            BERTH_CO_TRY(auto events, *std::move(read));
            if (!events.empty() || follower.ended() || started >= until) {
                const bool lives = !follower.keeper_gone() && follower.keeper_descriptor() >= 0;
                if (lives && !follower.ended())
                    followers_.put(std::move(sandbox.native), std::move(exec), std::move(follower));
                co_return events;
            }
            const bool alone = follower.keeper_gone() || follower.keeper_descriptor() < 0;
            if (alone && settled) co_return events; // complete, and nothing of it is after `from`
            if (alone) break;
            co_await log_grows(follower, until);
        }
        // Nobody writes to it any more: what is missing is its end.
        if (auto done = co_await settle_exec(sandbox, exec); !done) co_return std::unexpected(done.error());
    }
}

Task<Result<bool>> KeptBackend::overdue(SandboxHandle sandbox, std::string exec)
{
    BERTH_CO_TRY(const auto follower, co_await follower_of(std::move(sandbox), std::move(exec), 0));
    co_return co_await pool_.call([&] { return follower.overdue(); });
}

Task<void> KeptBackend::attend(SandboxHandle sandbox, std::string exec)
{
    auto idle = followers_.take(sandbox.native, exec, 0);
    auto follower = idle ? Result<ExecFollower>(*std::move(idle)) : co_await follower_of(sandbox, exec, 0);
    if (!follower) co_return; // whoever reads is told
    follower->attend();
    followers_.put(std::move(sandbox.native), std::move(exec), *std::move(follower));
}

void KeptBackend::expect_reader(std::string native, std::string exec, ExecFollower follower)
{
    followers_.put(std::move(native), std::move(exec), std::move(follower));
}

} // namespace berth::keeping
