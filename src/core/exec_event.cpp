#include "core/exec_event.hpp"

#include <sys/wait.h>

#include <cstring>

#include <fmt/format.h>

namespace berth {

ExitStatus ExitStatus::from_wait(int raw) noexcept
{
    ExitStatus status;
    status.known_ = WIFEXITED(raw) || WIFSIGNALED(raw);
    status.raw_ = raw;
    return status;
}

std::optional<int> ExitStatus::code() const noexcept
{
    if (!known_ || !WIFEXITED(raw_)) return std::nullopt;
    return WEXITSTATUS(raw_);
}

std::optional<int> ExitStatus::signal() const noexcept
{
    if (!known_ || !WIFSIGNALED(raw_)) return std::nullopt;
    return WTERMSIG(raw_);
}

int ExitStatus::shell_code() const noexcept
{
    if (!known_) return 125;
    return WIFEXITED(raw_) ? WEXITSTATUS(raw_) : 128 + WTERMSIG(raw_);
}

std::string to_string(const ExitStatus& status)
{
    if (const auto code = status.code()) return fmt::format("exit code {}", *code);
    if (const auto signal = status.signal()) {
        const char* name = ::sigabbrev_np(*signal);
        return fmt::format("killed by signal {} ({})", *signal, name == nullptr ? "?" : name);
    }
    return "unknown";
}

std::string_view to_string(ExecEvent::Kind kind) noexcept
{
    switch (kind) {
    case ExecEvent::Kind::Start: return "start";
    case ExecEvent::Kind::Stdout: return "stdout";
    case ExecEvent::Kind::Stderr: return "stderr";
    case ExecEvent::Kind::Pty: return "pty";
    case ExecEvent::Kind::Exit: return "exit";
    case ExecEvent::Kind::Closed: return "closed";
    case ExecEvent::Kind::Gap: return "gap";
    }
    return "gap";
}

} // namespace berth
