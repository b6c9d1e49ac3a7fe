#include "backend/local/keeper_process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace berth::local {

namespace {

constexpr int kPatienceMs = 10'000;

bool ended(int pidfd, int patience)
{
    pollfd gone{.fd = pidfd, .events = POLLIN, .revents = 0};
    return ::poll(&gone, 1, patience) == 1;
}

/// Not our child is ECHILD, and fine: it is its parent's, or the machine's first process'.
void reap(int pidfd)
{
    siginfo_t told{};
    constexpr auto by_pidfd = static_cast<idtype_t>(3); // P_PIDFD, Linux 5.4
    ::waitid(by_pidfd, static_cast<id_t>(pidfd), &told, WEXITED | WNOHANG);
}

} // namespace

Result<UniqueFd> open_keeper(const Instance& instance)
{
    if (instance.keeper.pid <= 0 || instance.boot != boot_id()) return UniqueFd{};
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, instance.keeper.pid, 0)));
    if (!pidfd && errno == ESRCH) return UniqueFd{};
    if (!pidfd) return fail_errno("opening the keeper of {}", instance.spec.id);
    const auto now = sys::process_of(instance.keeper.pid);
    if (now && now->start_time == instance.keeper.start_time) return pidfd;
    if (now || !keeper_lives(pidfd.get())) return UniqueFd{};
    // It lives and cannot be told from a stranger: neither killing it nor starting a second one is right.
    return fail(Code::Unavailable, "process {} may be the keeper of {}: /proc does not show it",
                instance.keeper.pid, instance.spec.id);
}

bool keeper_lives(int pidfd)
{
    if (!ended(pidfd, 0)) return true;
    reap(pidfd);
    return false;
}

void kill_keeper(int pidfd) { ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

Status end_keeper(int pidfd)
{
    kill_keeper(pidfd);
    if (!ended(pidfd, kPatienceMs)) return fail(Code::Unavailable, "the keeper does not end");
    reap(pidfd);
    return {};
}

} // namespace berth::local
