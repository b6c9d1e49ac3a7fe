// A sandbox that another process made, or started again.

#include "backend/local/environment.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/layer_snapshot.hpp"
#include "backend/local/sandbox.hpp"

namespace berth::local {

namespace {

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
    auto keeper = reach_keeper(directory, pidfd.get());
    if (!keeper)
        return std::unexpected(std::move(keeper).error().while_doing("asking the keeper of " + native));
    if (!*keeper) return is_stopped(native);
    return Running{.instance = std::move(instance), .pidfd = std::move(pidfd), .keeper = **std::move(keeper)};
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
        prepared->pins = std::move(instance.pins);
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
