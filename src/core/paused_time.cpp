#include "core/paused_time.hpp"

#include <algorithm>
#include <utility>

namespace berth {

using namespace std::chrono_literals;

Task<PausedTime> PausedTime::begin(Backend& backend, SandboxHandle sandbox, bool matters)
{
    PausedTime out;
    out.matters_ = matters && backend.capabilities().can(Operation::Pause);
    if (!out.matters_) co_return out;
    if (const auto found = co_await backend.inspect(std::move(sandbox))) out.seen_ = found->paused;
    co_return out;
}

Task<PausedTime::Look> PausedTime::look(Backend& backend, SandboxHandle sandbox)
{
    if (!matters_) co_return Look{};
    const auto found = co_await backend.inspect(std::move(sandbox));
    if (!found) co_return Look{};
    const auto more = found->paused - std::exchange(seen_, found->paused);
    co_return Look{.paused = found->state == State::Paused, .more = std::max(more, 0ms)};
}

} // namespace berth
