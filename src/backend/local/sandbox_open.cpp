// A sandbox that another process made, or that nobody has any more.

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include <thread>

#include "backend/local/environment.hpp"
#include "backend/local/instance.hpp"
#include "backend/local/sandbox.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

Result<UniqueFd> open_directory(const StateDir& state, const std::string& id)
{
    if (!is_id(id, "sbx_")) return fail(Code::Invalid, "'{}' is not the id of a sandbox", printable(id, 60));
    UniqueFd directory(
        ::openat(state.fd(), ("sandbox/" + id).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory) return fail_errno("opening sandbox {}", id);
    return directory;
}

/// A descriptor of the recorded process, and of no other that has its number now.
Result<UniqueFd> open_keeper(const Instance& instance)
{
    const auto gone = [&] { return fail(Code::NotFound, "the keeper of {} is gone", instance.spec.id); };
    if (instance.boot != boot_id()) return gone();
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, instance.keeper.pid, 0)));
    if (!pidfd && errno == ESRCH) return gone();
    if (!pidfd) return fail_errno("opening the keeper of {}", instance.spec.id);
    const auto now = sys::process_of(instance.keeper.pid);
    if (!now || now->start_time != instance.keeper.start_time) return gone();
    return pidfd;
}

/// The lock of a killed maker ends with the last process that has its descriptors: a helper of his may
/// be a moment behind.
bool lock(int directory, int how)
{
    for (int tries = 0; tries < 20; ++tries) {
        if (::flock(directory, how | LOCK_NB) == 0) return true;
        std::this_thread::sleep_for(5ms);
    }
    return false;
}

} // namespace

bool being_made(int directory)
{
    if (!lock(directory, LOCK_SH)) return true;
    ::flock(directory, LOCK_UN);
    return false;
}

Result<Sandbox> Sandbox::open(const StateDir& state, const std::string& id)
{
    BERTH_TRY(auto directory, open_directory(state, id));
    if (being_made(directory.get())) return fail(Code::Unavailable, "sandbox {} is being made", id);
    BERTH_TRY(auto instance, read_instance(directory.get()));
    BERTH_TRY(auto pidfd, open_keeper(instance));
    auto keeper = KeeperClient::connect(directory.get(), "sock", kPatience);
    const Status answered = keeper ? keeper->ping() : Status(std::unexpected(keeper.error()));
    if (!answered) {
        // One that is just being killed hangs up before it is dead.
        pollfd dead{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
        if (::poll(&dead, 1, 1000) == 1) return fail(Code::NotFound, "the keeper of {} is gone", id);
        return std::unexpected(Error(answered.error()).while_doing("asking the keeper of " + id));
    }

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

    Sandbox sandbox(std::move(prepared), std::move(directory), *std::move(keeper));
    sandbox.keeper_pid_ = instance.keeper.pid;
    sandbox.pidfd_ = std::move(pidfd);
    sandbox.opened_ = true;
    if (!instance.groups.empty()) {
        BERTH_TRY(auto group, sys::KeptGroup::open(instance.groups));
        sandbox.group_.emplace(std::move(group));
    }
    return sandbox;
}

/// Where the record is missing the maker was killed: its keeper, if it got that far, still answers, and
/// its groups have their usual places.
Status Sandbox::remove_dead(const StateDir& state, const std::string& id)
{
    auto directory = open_directory(state, id);
    if (!directory && directory.error().code == Code::NotFound) return {};
    if (!directory) return std::unexpected(std::move(directory).error());
    // Held until it is gone: a maker that comes too late to lock it sees that it is not there any more.
    if (!lock(directory->get(), LOCK_EX))
        return fail(Code::Unavailable, "sandbox {} is being made, or removed by somebody else", id);
    if (auto keeper = KeeperClient::connect(directory->get(), "sock", kPatience)) BERTH_CHECK(keeper->stop());
    if (const auto instance = read_instance(directory->get()); instance && !instance->groups.empty())
        BERTH_CHECK(sys::KeptGroup::remove(instance->groups));
    const auto tree = sys::CgroupTree::open();
    const auto places = tree.kept_places(id, {.memory = Bytes{0}, .pids = 0, .cpus = 0.0});
    if (!places.empty()) BERTH_CHECK(sys::KeptGroup::remove(places));
    return discard(state, id);
}

} // namespace berth::local
