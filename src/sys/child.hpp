#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "base/exit_status.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// A child we are responsible for reaping.
///
/// Held by pidfd, so a signal can never reach a stranger that inherited the number. Destroying a
/// Child that was not waited for kills and reaps it. The keeper of a kept sandbox is meant to
/// outlive us: call detach() there.
class Child {
public:
    /// A child we know by number only; the number is safe as long as nobody else reaps it.
    [[nodiscard]] static Result<Child> adopt(pid_t pid);
    /// A child that came with its pidfd (CLONE_PIDFD).
    [[nodiscard]] static Child own(pid_t pid, UniqueFd pidfd) noexcept
    {
        return Child(pid, std::move(pidfd));
    }
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// Readable once the process has ended; borrowed, -1 after it was reaped or detached.
    [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); }

    /// Polite first, then certain: SIGTERM, wait up to `grace`, SIGKILL.
    [[nodiscard]] Result<ExitStatus> terminate(std::chrono::milliseconds grace);

    /// Until it ends; retried when interrupted. Asked again, answers the same.
    [[nodiscard]] Result<ExitStatus> wait();
    /// Nothing while it runs.
    [[nodiscard]] Result<std::optional<ExitStatus>> try_wait();
    /// Nothing when it still runs after `patience`.
    [[nodiscard]] Result<std::optional<ExitStatus>> wait_for(std::chrono::milliseconds patience);

    /// A process that has already been reaped is NotFound; one that only ended takes it silently.
    [[nodiscard]] Status signal(int signo) const;

    /// Gives up the duty to reap; the pid only serves as a name from here on.
    [[nodiscard]] pid_t detach() noexcept;

private:
    Child(pid_t pid, UniqueFd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}
    Result<std::optional<ExitStatus>> reap(int options);
    void end() noexcept;

    pid_t pid_ = -1;
    UniqueFd pidfd_;
    std::optional<ExitStatus> status_;
};

} // namespace berth::sys
