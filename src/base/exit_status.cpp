#include "base/exit_status.hpp"

#include <sys/wait.h>

#include <cstring>

#include <fmt/format.h>

namespace berth {

namespace {

constexpr int kCoreFlag = 0x80;

} // namespace

ExitStatus ExitStatus::from(const siginfo_t& told) noexcept
{
    switch (told.si_code) {
    case CLD_EXITED: return from_wait((told.si_status & 0xff) << 8);
    case CLD_KILLED:
        if (told.si_status == 0) return unknown(); // as a raw status it would read "exit code 0"
        return from_wait(told.si_status);
    case CLD_DUMPED: return from_wait(told.si_status | kCoreFlag);
    default: return unknown();
    }
}

ExitStatus ExitStatus::from_wait(int raw) noexcept
{
    const bool exited = WIFEXITED(raw) && (raw & ~0xff00) == 0;
    const bool killed = WIFSIGNALED(raw) && (raw & ~0xff) == 0;
    return exited || killed ? ExitStatus(raw) : unknown();
}

std::optional<int> ExitStatus::code() const noexcept
{
    if (!known() || !WIFEXITED(raw_)) return std::nullopt;
    return WEXITSTATUS(raw_);
}

std::optional<int> ExitStatus::signal() const noexcept
{
    if (!known() || !WIFSIGNALED(raw_)) return std::nullopt;
    return WTERMSIG(raw_);
}

bool ExitStatus::dumped_core() const noexcept { return signal() && (raw_ & kCoreFlag) != 0; }

int ExitStatus::shell_code() const noexcept
{
    if (const auto number = signal()) return 128 + *number;
    return code().value_or(125);
}

std::string to_string(const ExitStatus& status)
{
    if (const auto code = status.code()) return fmt::format("exit code {}", *code);
    const auto signal = status.signal();
    if (!signal) return "unknown";
    const char* const name = ::sigabbrev_np(*signal);
    return fmt::format("killed by {}{}",
                       name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", *signal),
                       status.dumped_core() ? " (core dumped)" : "");
}

} // namespace berth
