#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// How a process ended. There is no way to make one up: it comes from what `waitid` filled in, or
/// from a raw wait status that a keeper passed on.
class ExitStatus {
public:
    [[nodiscard]] static Result<ExitStatus> from(const siginfo_t& told);
    [[nodiscard]] static Result<ExitStatus> from_wait_status(int raw);

    [[nodiscard]] bool exited() const noexcept { return signal_ == 0; }
    [[nodiscard]] int code() const noexcept { return code_; }     ///< only when exited()
    [[nodiscard]] int signal() const noexcept { return signal_; } ///< 0 when exited()
    [[nodiscard]] bool dumped_core() const noexcept { return core_; }
    [[nodiscard]] bool success() const noexcept { return exited() && code_ == 0; }

    /// What a shell would put into $?: the code, or 128 + the signal.
    [[nodiscard]] int shell_code() const noexcept { return exited() ? code_ : 128 + signal_; }

    bool operator==(const ExitStatus&) const = default;

private:
    ExitStatus(int code, int signal, bool core) noexcept : code_(code), signal_(signal), core_(core) {}
    int code_;
    int signal_;
    bool core_;
};

/// "exit code 7", "killed by SIGKILL", "killed by SIGSEGV (core dumped)".
[[nodiscard]] std::string to_string(const ExitStatus& status);

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
