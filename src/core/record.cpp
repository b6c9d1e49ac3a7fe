#include "core/record.hpp"

#include <algorithm>
#include <array>

#include "base/strings.hpp"

namespace berth {

std::string_view to_string(OnIdle action) noexcept
{
    switch (action) {
    case OnIdle::Stop: return "stop";
    case OnIdle::SnapshotThenStop: return "snapshot_then_stop";
    case OnIdle::Destroy: return "destroy";
    }
    return "stop";
}

Result<OnIdle> parse_on_idle(std::string_view text)
{
    for (const auto action : {OnIdle::Stop, OnIdle::SnapshotThenStop, OnIdle::Destroy})
        if (text == to_string(action)) return action;
    return fail(Code::Invalid, "'{}' is none of stop, snapshot_then_stop, destroy", printable(text, 40));
}

bool SandboxRecord::live() const noexcept { return superseded_by.empty() && !over(); }

bool SandboxRecord::over() const noexcept
{
    return state == State::Destroyed || state == State::Failed || state == State::Detached;
}

WallTime SandboxRecord::deadline() const noexcept
{
    WallTime first{};
    const auto sooner = [&](WallTime time) { first = first == WallTime{} ? time : std::min(first, time); };
    const bool uses = state == State::Running || state == State::Paused || state == State::Attached;
    if (retention.idle && (uses || retention.on_idle == OnIdle::Destroy)) sooner(last_used + *retention.idle);
    if (retention.lifetime) sooner(created + *retention.lifetime);
    return first;
}

} // namespace berth
