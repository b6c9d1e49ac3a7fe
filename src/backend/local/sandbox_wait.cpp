// The end of an exec of a kept sandbox: how it is learned, and what brought it about.

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <utility>

#include "backend/local/sandbox.hpp"
#include "backend/local/shared.hpp"
#include "core/struck.hpp"
#include "keeping/exec_logs.hpp"
#include "sys/group_memory.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

ExitStatus exit_of(int status)
{
    return status == keeper::kStatusUnknown ? ExitStatus::unknown() : ExitStatus::from_wait(status);
}

} // namespace

Result<int> Sandbox::exec_pid(const std::string& exec)
{
    // One that has ended already is not in the keeper's list any more.
    if (const auto known = pids_.find(exec); known != pids_.end()) return known->second;
    BERTH_TRY(const auto number, keeper_id(exec));
    BERTH_TRY(const auto items, keeper_.list());
    for (const auto& item : items)
        if (item.exec == number && item.pid > 0) return item.pid;
    return fail(Code::NotFound, "sandbox {} has no process of {}", id(), exec);
}

Usage Sandbox::usage() const
{
    Usage out;
    if (!group_) return out;
    if (const auto cpu = group_->execs().cpu_used()) out.cpu = *cpu;
    if (const auto memory = group_->execs().memory_current()) out.memory = *memory;
    return out;
}

Measured Sandbox::measured() const
{
    Measured out;
    const auto memory = group_ ? sys::memory_of(group_->execs().places())
                               : Result<sys::GroupMemory>(fail(Code::Unsupported, "{} has no group", id()));
    if (memory) {
        out.memory = memory->used;
        out.cache = memory->cache;
    }
    // What is written inside lies here: `df /` tells the same.
    struct statvfs files{};
    if (::fstatvfs(directory_.get(), &files) != 0) return out;
    out.disk = Bytes{std::uint64_t{files.f_blocks - files.f_bfree} * files.f_frsize};
    out.disk_total = Bytes{std::uint64_t{files.f_blocks} * files.f_frsize};
    return out;
}

Result<std::vector<ExecInfo>> Sandbox::all_execs() const
{
    return list_logs(directory_.get(), LogKeeper::Lives);
}

/// The keeper tells whoever started it. Whoever else asks is woken by it through an eventfd and looks in
/// the log, which is right also when the word is still on its way.
Result<std::optional<ExitStatus>> Sandbox::wait(const std::string& exec, std::chrono::milliseconds patience)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    BERTH_TRY(const auto number, keeper_id(exec));
    const auto adopted = adopted_.find(exec);
    KeeperClient& starter = adopted == adopted_.end() ? keeper_ : adopted->second.keeper;
    const auto told = starter.wait_exit(number, patience);
    if (told) return exit_of(*told);

    BERTH_TRY(const auto log, open_log(directory_.get(), exec));
    std::uint64_t at = 0;
    BERTH_TRY(const auto ended, find_exit(log, at));
    if (ended || told.error().code == Code::DeadlineExceeded) return ended;
    const UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) return fail_errno("making an eventfd");
    auto keeper = KeeperClient::connect(directory_.get(), "sock", kPatience);
    if (keeper) {
        if (auto following = keeper->follow(number, wake.get()); !following)
            return std::unexpected(following.error());
    }
    for (;;) {
        BERTH_TRY(const auto found, find_exit(log, at));
        if (found) return found;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return std::optional<ExitStatus>{};
        pollfd ready[2] = {{.fd = wake.get(), .events = POLLIN, .revents = 0},
                           {.fd = keeper ? keeper->socket() : -1, .events = 0, .revents = 0}};
        ::poll(&ready[0], 2, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
        if (ready[1].revents != 0) return fail(Code::Unavailable, "the keeper of {} is gone", id());
        std::uint64_t count = 0;
        [[maybe_unused]] const auto n = ::read(wake.get(), &count, sizeof count);
    }
}

Result<Sandbox::Ended> Sandbox::wait_or_kill(const std::string& exec, std::chrono::milliseconds timeout)
{
    Ended ended;
    BERTH_TRY(auto status, wait(exec, timeout));
    if (!status) {
        ended.timed_out = true;
        BERTH_CHECK(kill(exec));
        BERTH_TRY(status, wait(exec, kPatience));
    }
    ended.status = status.value_or(ExitStatus::unknown());
    if (!holds_names(exec)) let_go(exec);
    if (!group_) return ended;
    // Counted once, told to everybody who asks.
    const auto [known, first] = struck_.try_emplace(exec);
    if (first) known->second = struck_by(exec);
    ended.struck = known->second;
    return ended;
}

bool Sandbox::holds_names(const std::string& exec) const
{
    const auto adopted = adopted_.find(exec);
    return adopted != adopted_.end() && !adopted->second.protects.locks().empty();
}

bool Sandbox::refused(const std::string& exec) const
{
    const auto adopted = adopted_.find(exec);
    return adopted != adopted_.end() && adopted->second.supervision &&
           adopted->second.supervision->refused() > 0;
}

void Sandbox::let_go(const std::string& exec) { adopted_.erase(exec); }

/// In v2 the exec's own group counts the kills that struck it. In v1 only the sandbox's does, as it does
/// for refused processes on newer kernels; what it has counted since the last look is told.
std::vector<std::string> Sandbox::struck_by(const std::string& exec)
{
    const auto& limits = prepared_->spec.policy.limits;
    const auto& places = group_->places();
    const auto own = group_of(exec);
    const auto grew = [](std::uint64_t now, std::uint64_t& seen) { return now > std::exchange(seen, now); };
    const bool of_all_memory = grew(group_->execs().oom_kills().value_or(0), oom_seen_);
    const bool of_all_pids = grew(group_->execs().pids_max_events().value_or(0), pids_seen_);
    const bool counts_itself = own && places.v1[sys::index(sys::Controller::Memory)].empty();

    std::vector<std::string> out;
    if (limits.memory && (counts_itself ? own->oom_kills().value_or(0) > 0 : of_all_memory))
        out.push_back(struck::by_memory(*limits.memory));
    if (limits.pids && (of_all_pids || (counts_itself && own->pids_max_events().value_or(0) > 0)))
        out.push_back(struck::by_processes(*limits.pids));
    const auto waited = (counts_itself ? *own : group_->execs()).throttled().value_or(0us);
    const auto since = waited - (counts_itself ? 0us : std::exchange(waited_seen_, waited));
    if (limits.cpus && since >= struck::kWorthTelling) out.push_back(struck::by_cpus(*limits.cpus, since));
    return out;
}

} // namespace berth::local
