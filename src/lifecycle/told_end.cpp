#include "lifecycle/told_end.hpp"

#include <csignal>

#include <fmt/format.h>

#include "core/holds_time.hpp"

namespace berth {

std::string told_end(const ExitStatus& status, bool overdue)
{
    if (overdue && status.signal() == SIGKILL) return fmt::format("timed out, signal {}", SIGKILL);
    if (const auto signal = status.signal()) return fmt::format("signal {}", *signal);
    if (const auto code = status.code()) return fmt::format("exit {}", *code);
    return "unknown";
}

Task<bool> timed_out(Lifecycle& lifecycle, SandboxRecord sandbox, std::string exec, ExitStatus status)
{
    if (status.signal() != SIGKILL) co_return false;
    if (auto where = co_await lifecycle.backend(sandbox.backend);
        where && co_await ended_by_time(**where, Lifecycle::handle(sandbox), exec, status))
        co_return true;
    const auto record = co_await lifecycle.find_exec(std::move(sandbox), std::move(exec));
    co_return record && (record->overdue || record->outcome == told_end(status, true));
}

} // namespace berth
