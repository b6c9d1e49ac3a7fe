#include "backend/local/look.hpp"

#include <fcntl.h>

#include "backend/local/instance_lock.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/layer_snapshot.hpp"
#include "backend/local/shared.hpp"
#include "base/io.hpp"
#include "keeping/keeper_client.hpp"
#include "keeping/native.hpp"
#include "keeping/pause.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kHealthPatience = 2s;

/// As the record and the kernel tell it.
Found look_once(int directory, Found found)
{
    const auto instance = read_instance(directory);
    if (!instance) {
        if (instance.error().code == Code::NotFound) return found;
        // A record that cannot be read is no reason to give its files up.
        found.health = Health::Unresponsive;
        found.state = State::Stopped;
        return found;
    }
    found.labels = instance->labels;
    const auto pidfd = open_keeper(*instance);
    if (pidfd && !*pidfd) {
        found.health = Health::Healthy; // its files are there
        found.state = State::Stopped;
        return found;
    }
    const Paused paused = paused_now(directory);
    found.state = paused.now ? State::Paused : State::Running;
    found.paused = paused.in_all;
    found.health = Health::Unresponsive;
    if (!pidfd) return found;
    auto keeper = KeeperClient::connect(directory, "sock", kHealthPatience);
    if (keeper && keeper->ping()) found.health = Health::Healthy;
    return found;
}

} // namespace

Paused paused_now(int directory)
{
    const auto instance = read_instance(directory);
    if (!instance || instance->groups.empty()) return {};
    const auto group = sys::KeptGroup::open(instance->groups);
    if (!group) return {};
    return look_paused(directory, group->execs()).value_or(Paused{});
}

Found look_at(const StateDir& state, const std::string& native)
{
    const Found gone{.sandbox = {.sandbox = std::string(sandbox_of(native)), .native = native},
                     .health = Health::Gone,
                     .state = State::Lost,
                     .labels = {},
                     .paused = {}};
    const auto deadline = std::chrono::steady_clock::now() + kHealthPatience;
    for (;;) {
        const auto directory = open_instance(state, native);
        Found found = gone;
        if (!directory) {
            if (directory.error().code != Code::NotFound) found.health = Health::Unresponsive;
            return found;
        }
        end_killed_copy(state, native, directory->get());
        found = look_once(directory->get(), gone);
        if (found.state == State::Running || found.state == State::Paused) return found;
        // What does not run may be on its way: between two keepers, or not finished yet.
        if (!being_changed(directory->get())) return look_once(directory->get(), gone);
        if (std::chrono::steady_clock::now() < deadline) continue;
        if (found.state == State::Lost) found.state = State::Creating;
        found.health = Health::Unresponsive;
        return found;
    }
}

Result<std::vector<Found>> look_at_all(const StateDir& state)
{
    const UniqueFd all(::openat(state.fd(), "sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!all) return fail_errno("opening {}", state.sandboxes());
    BERTH_TRY(const auto names, list_names(all.get()));
    std::vector<Found> found;
    for (const auto& name : names) {
        if (!is_native(name)) continue;
        // What is parked is no instance of anybody's (parked.hpp).
        if (const auto directory = open_instance(state, name); directory && is_parked(directory->get()))
            continue;
        found.push_back(look_at(state, name));
    }
    return found;
}

} // namespace berth::local
