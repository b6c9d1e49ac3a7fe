#include "sys/child.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

namespace berth::sys {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kPidfd = static_cast<idtype_t>(3); // P_PIDFD, Linux 5.4

int send_signal(int pidfd, int signo) noexcept
{
    return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signo, nullptr, 0));
}

} // namespace

Result<Child> Child::adopt(pid_t pid)
{
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) return fail_errno("opening pidfd for {}", pid);
    return Child(pid, std::move(pidfd));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt))
{
}

Child& Child::operator=(Child&& other) noexcept
{
    if (this == &other) return *this;
    end();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    status_ = std::exchange(other.status_, std::nullopt);
    return *this;
}

Child::~Child() { end(); }

void Child::end() noexcept
{
    if (!pidfd_) return;
    send_signal(pidfd_.get(), SIGKILL);
    siginfo_t told{};
    while (::waitid(kPidfd, static_cast<id_t>(pidfd_.get()), &told, WEXITED) != 0 && errno == EINTR) {
    }
    pidfd_.reset();
}

Result<std::optional<ExitStatus>> Child::reap(int options)
{
    if (status_) return status_;
    if (!pidfd_) return fail(Code::Conflict, "process {} is not ours to wait for", pid_);
    siginfo_t told{};
    while (::waitid(kPidfd, static_cast<id_t>(pidfd_.get()), &told, WEXITED | options) != 0)
        if (errno != EINTR) return fail_errno("waiting for process {}", pid_);
    if (told.si_pid == 0) return std::nullopt; // WNOHANG, and it still runs
    pidfd_.reset();
    status_ = ExitStatus::from(told);
    return status_;
}

Result<ExitStatus> Child::wait()
{
    BERTH_TRY(const auto ended, reap(0));
    return *ended;
}

Result<std::optional<ExitStatus>> Child::try_wait() { return reap(WNOHANG); }

Result<std::optional<ExitStatus>> Child::wait_for(milliseconds patience)
{
    const auto deadline = Clock::now() + patience;
    while (pidfd_) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
        pollfd ended{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
        const int answer =
            ::poll(&ended, 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 1 << 30)));
        if (answer > 0) break;
        if (answer < 0 && errno != EINTR) return fail_errno("waiting for process {}", pid_);
        if (Clock::now() >= deadline) break;
    }
    return reap(WNOHANG);
}

Result<ExitStatus> Child::terminate(milliseconds grace)
{
    if (status_) return *status_;
    BERTH_CHECK(signal(SIGTERM));
    BERTH_TRY(const auto polite, wait_for(grace));
    if (polite) return *polite;
    BERTH_CHECK(signal(SIGKILL));
    return wait();
}

Status Child::signal(int signo) const
{
    if (!pidfd_) return fail(Code::NotFound, "process {} has already ended", pid_);
    if (send_signal(pidfd_.get(), signo) != 0)
        return fail_errno("sending signal {} to process {}", signo, pid_);
    return {};
}

pid_t Child::detach() noexcept
{
    pidfd_.reset();
    return pid_;
}

} // namespace berth::sys
