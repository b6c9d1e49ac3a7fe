#include "keeping/exec_time.hpp"

#include <fcntl.h>

#include "base/hooks.hpp"
#include "base/log.hpp"
#include "keeping/pause.hpp"

namespace berth::keeping {

namespace {

UniqueFd open_file(const std::string& path, int flags)
{
    return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
}

} // namespace

ExecTime::ExecTime(std::chrono::nanoseconds limit, int directory, const sys::SandboxGroup* execs,
                   const sys::SandboxGroup* exec)
    : limit_(limit), pausable_(execs != nullptr && execs->can_freeze()), grouped_(exec != nullptr)
{
    constexpr auto freezer = sys::index(sys::Controller::Freezer);
    if (pausable_) {
        const auto& places = execs->places();
        pauses_ = open_pauses(directory);
        frozen_ = places.v2.empty() ? open_file(places.v1[freezer] + "/freezer.self_freezing", O_RDONLY)
                                    : open_file(places.v2 + "/cgroup.freeze", O_RDONLY);
    }
    if (exec == nullptr) return;
    if (const auto& places = exec->places(); !places.v2.empty())
        kill_ = open_file(places.v2 + "/cgroup.kill", O_WRONLY);
}

void ExecTime::tell(KeeperClient& keeper, std::uint64_t exec) const
{
    // Who does not see pauses would end what stands still; and who cannot end a group at once (v1 alone, or
    // Linux before 5.14) would leave whom it has just born.
    if (hooks::lacks("keeper-time") || (pausable_ && (!pauses_ || !frozen_)) || (grouped_ && !kill_)) return;
    const auto told = keeper.expect_time(
        exec, {.limit = limit_, .pauses = pauses_.get(), .frozen = frozen_.get(), .kill = kill_.get()});
    if (!told) log::debug("the keeper does not hold a time", {{"why", told.error().line()}});
}

} // namespace berth::keeping
