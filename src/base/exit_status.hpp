#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace berth {

/// How a process ended, as the kernel said it, or that nobody knows. There is no way to make one up:
/// a known one comes from what `waitid` filled in, or from a raw wait status that a keeper passed on.
class ExitStatus {
public:
    /// Unknown: the process was lost, nobody saw it end.
    ExitStatus() noexcept = default;
    [[nodiscard]] static ExitStatus unknown() noexcept { return {}; }

    /// From what waitid(2) filled in; unknown when it does not tell an end.
    [[nodiscard]] static ExitStatus from(const siginfo_t& told) noexcept;
    /// From the raw status of wait(2). A keeper's word is not trusted to be well formed: anything but
    /// the two shapes of an end is unknown.
    [[nodiscard]] static ExitStatus from_wait(int raw) noexcept;

    [[nodiscard]] bool known() const noexcept { return raw_ != kUnknown; }
    [[nodiscard]] std::optional<int> code() const noexcept;   ///< when it exited
    [[nodiscard]] std::optional<int> signal() const noexcept; ///< when a signal killed it
    [[nodiscard]] bool dumped_core() const noexcept;
    [[nodiscard]] bool success() const noexcept { return raw_ == 0; }

    /// What a shell would put into $?: the code, or 128 + the signal; 125 when it is unknown.
    [[nodiscard]] int shell_code() const noexcept;

    bool operator==(const ExitStatus&) const = default;

private:
    static constexpr int kUnknown = -1;

    explicit ExitStatus(int raw) noexcept : raw_(raw) {}
    int raw_ = kUnknown;
};

/// "exit code 7", "killed by SIGKILL", "killed by SIGSEGV (core dumped)", "unknown".
[[nodiscard]] std::string to_string(const ExitStatus& status);

} // namespace berth
