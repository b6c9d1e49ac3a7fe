#include "backend/local/keeper_process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace berth::local {

namespace {

constexpr int kPatienceMs = 10'000;
constexpr int kDeathMs = 1'000;                     // between hanging up and death
constexpr auto kByPidfd = static_cast<idtype_t>(3); // P_PIDFD, Linux 5.4

bool ended(int pidfd, int patience)
{
    pollfd gone{.fd = pidfd, .events = POLLIN, .revents = 0};
    return ::poll(&gone, 1, patience) == 1;
}

/// Not our child is ECHILD, and fine: it is its parent's, or the machine's first process'.
void reap(int pidfd)
{
    siginfo_t told{};
    ::waitid(kByPidfd, static_cast<id_t>(pidfd), &told, WEXITED | WNOHANG);
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

Result<std::optional<keeping::KeeperClient>> reach_keeper(int directory, int pidfd)
{
    auto keeper = keeping::KeeperClient::connect(directory, "sock", std::chrono::milliseconds(kPatienceMs));
    const Status answered = keeper ? keeper->ping() : Status(std::unexpected(keeper.error()));
    if (answered) return *std::move(keeper);
    if (!ended(pidfd, kDeathMs)) return std::unexpected(answered.error());
    reap(pidfd);
    return std::nullopt;
}

std::optional<ExitStatus> end_of_keeper(int pidfd)
{
    siginfo_t told{};
    if (!ended(pidfd, kDeathMs)) return std::nullopt;
    if (::waitid(kByPidfd, static_cast<id_t>(pidfd), &told, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        told.si_pid == 0)
        return ExitStatus::unknown();
    return ExitStatus::from(told);
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
