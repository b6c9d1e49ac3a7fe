#include "backend/local/rest.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "backend/local/shared.hpp"
#include "backend/local/uppers.hpp"
#include "base/hooks.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/keeper_client.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr int kTries = 20;
constexpr auto kPause = 5ms;

bool at_rest(int directory, const Instance& instance)
{
    struct stat st{};
    return instance.stopped && instance.groups.empty() && instance.freezing.empty() &&
           ::fstatat(directory, "sock", &st, AT_SYMLINK_NOFOLLOW) != 0;
}

/// The files of an instance have one of two names: their own, or that of the layer they were to become.
Status finish_freeze(const StateDir& state, int directory, Instance& instance)
{
    if (instance.freezing.empty()) return {};
    if (has_layer(state, instance.freezing)) {
        Stack stack = instance.stack;
        stack.insert(stack.begin(), instance.freezing);
        if (::faccessat(directory, "fs", F_OK, AT_SYMLINK_NOFOLLOW) != 0)
            BERTH_CHECK(make_uppers(state, directory, stack));
        instance.stack = std::move(stack);
    }
    instance.freezing.clear();
    return {};
}

} // namespace

Status end_orphan(int directory)
{
    for (int tries = 0;; ++tries) {
        auto keeper = KeeperClient::connect(directory, "sock", kPatience);
        if (!keeper) break; // nobody listens
        auto stopped = keeper->stop();
        if (stopped) break;
        // One that is just dying hangs up on us before it is dead.
        if (tries >= kTries) return stopped;
        std::this_thread::sleep_for(kPause);
    }
    if (::unlinkat(directory, "sock", 0) != 0 && errno != ENOENT)
        return fail_errno("removing the socket of a sandbox");
    return {};
}

Result<Rest> bring_to_rest(const StateDir& state, const std::string& native, int directory,
                           Instance& instance)
{
    Rest rest;
    rest.unsynced_since = instance.unsynced_since;
    if (at_rest(directory, instance)) return rest;
    BERTH_CHECK(end_orphan(directory));
    if (!instance.groups.empty()) BERTH_CHECK(sys::KeptGroup::remove(instance.groups));
    ::unlinkat(directory, "paused", 0);
    hooks::kill_point("rest: nothing runs");
    BERTH_CHECK(settle_logs(native, directory));
    hooks::kill_point("rest: logs settled");
    BERTH_CHECK(finish_freeze(state, directory, instance));
    // The page cache outlives every process; only the machine's end takes what was not synced.
    // Remembered until a start has told it.
    if (!instance.stopped && instance.boot != boot_id() && !rest.unsynced_since)
        rest.unsynced_since = instance.unsynced_since = instance.synced;
    if (!instance.in_memory) {
        BERTH_CHECK(sync_file_system(directory));
        hooks::kill_point("rest: files synced");
        BERTH_CHECK(remove_marks(directory));
        hooks::kill_point("rest: marks removed");
    }
    instance.stopped = true;
    instance.keeper = {};
    instance.groups = {};
    instance.slot.reset();
    instance.synced = system_clock().now();
    BERTH_CHECK(write_instance(directory, instance, Durable::Yes));
    hooks::kill_point("rest: recorded");
    return rest;
}

} // namespace berth::local
