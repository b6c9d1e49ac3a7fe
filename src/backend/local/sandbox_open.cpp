// A sandbox that another process made, or started again.

#include <thread>

#include "backend/local/environment.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/layer_snapshot.hpp"
#include "backend/local/sandbox.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr auto kPause = 2ms;

/// An instance that runs, as its record says and the kernel confirms.
struct Running {
    Instance instance;
    UniqueFd pidfd;
    KeeperClient keeper;
};

std::unexpected<Error> is_stopped(const std::string& native)
{
    return fail(Code::Conflict, "sandbox {} is stopped: berth start {}", native, native);
}

Result<Running> find_running(int directory, const std::string& native)
{
    BERTH_TRY(auto instance, read_instance(directory));
    BERTH_TRY(auto pidfd, open_keeper(instance));
    if (!pidfd) return is_stopped(native);
    auto keeper = KeeperClient::connect(directory, "sock", kPatience);
    const Status answered = keeper ? keeper->ping() : Status(std::unexpected(keeper.error()));
    if (answered)
        return Running{
            .instance = std::move(instance), .pidfd = std::move(pidfd), .keeper = *std::move(keeper)};
    // One that is just being killed hangs up before it is dead.
    for (const auto end = std::chrono::steady_clock::now() + 1s; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(kPause))
        if (!keeper_lives(pidfd.get())) return is_stopped(native);
    return std::unexpected(Error(answered.error()).while_doing("asking the keeper of " + native));
}

} // namespace

Result<Sandbox> Sandbox::open(const StateDir& state, const std::string& native)
{
    const auto deadline = std::chrono::steady_clock::now() + kLockPatience;
    for (;;) {
        BERTH_TRY(auto directory, open_instance(state, native));
        end_killed_copy(state, native, directory.get());
        auto running = find_running(directory.get(), native);
        if (!running && being_changed(directory.get())) {
            if (std::chrono::steady_clock::now() >= deadline)
                return fail(Code::Unavailable, "sandbox {} is being made, started or stopped", native);
            continue;
        }
        // Whoever changed it may have been done just before we asked.
        if (!running) running = find_running(directory.get(), native);
        if (!running && running.error().code == Code::NotFound)
            return fail(Code::NotFound, "sandbox {} was never finished", native);
        if (!running) return std::unexpected(std::move(running).error());
        Instance& instance = running->instance;
        auto prepared = std::make_unique<Prepared>();
        prepared->spec = std::move(instance.spec);
        prepared->identity.mode = instance.mode;
        if (instance.slot) prepared->identity.range.emplace(sys::IdRange::known(*instance.slot));
        Plan& plan = prepared->plan;
        plan.spec = &prepared->spec;
        plan.state = &state;
        plan.identity = &prepared->identity;
        plan.layers = instance.layers;
        plan.net = instance.net;
        plan.kept = true;
        plan.landlock_abi = landlock_abi();
        BERTH_TRY(prepared->user, account_for(prepared->spec.user, plan.layers, prepared->identity));
        std::optional<sys::KeptGroup> group;
        if (!instance.groups.empty()) {
            BERTH_TRY(auto opened, sys::KeptGroup::open(instance.groups));
            group.emplace(std::move(opened));
        }
        Sandbox sandbox(native, std::move(directory),
                        Booted{.prepared = std::move(prepared),
                               .keeper = std::move(running->keeper),
                               .pid = instance.keeper.pid,
                               .pidfd = std::move(running->pidfd),
                               .group = std::move(group)});
        sandbox.opened_ = true;
        return sandbox;
    }
}

} // namespace berth::local
