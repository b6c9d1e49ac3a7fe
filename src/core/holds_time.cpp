#include "core/holds_time.hpp"

#include <csignal>

namespace berth {

std::chrono::milliseconds keepers_turn(Backend& backend)
{
    return std::chrono::milliseconds(dynamic_cast<HoldsTime*>(&backend) != nullptr ? 500 : 0);
}

bool ended_by_itself(const ExitStatus& status)
{
    constexpr int of_signals = 128; // some engines tell them as codes
    return status.code().value_or(of_signals) < of_signals;
}

Task<bool> ended_by_time(Backend& backend, SandboxHandle sandbox, std::string exec, ExitStatus status)
{
    // A command that ended by itself at the last moment did not time out.
    auto* const holder = status.signal() == SIGKILL ? dynamic_cast<HoldsTime*>(&backend) : nullptr;
    if (holder == nullptr) co_return false;
    co_return (co_await holder->overdue(std::move(sandbox), std::move(exec))).value_or(false);
}

} // namespace berth
