#include "core/state.hpp"

namespace berth {

namespace {

struct Row {
    State from;
    Transition transition;
    State to;
};

constexpr Row kTable[] = {
    {State::Creating, Transition::Usable, State::Running},
    {State::Creating, Transition::Error, State::Failed},
    {State::Creating, Transition::Destroy, State::Destroyed},
    {State::Running, Transition::Stop, State::Stopped},
    {State::Running, Transition::Pause, State::Paused},
    {State::Running, Transition::Reboot, State::Stopped},
    {State::Running, Transition::Missing, State::Lost},
    {State::Running, Transition::Destroy, State::Destroyed},
    {State::Paused, Transition::Resume, State::Running},
    {State::Paused, Transition::Stop, State::Stopped},
    {State::Paused, Transition::Reboot, State::Stopped},
    {State::Paused, Transition::Missing, State::Lost},
    {State::Paused, Transition::Destroy, State::Destroyed},
    {State::Stopped, Transition::Start, State::Running},
    {State::Stopped, Transition::Missing, State::Lost},
    {State::Stopped, Transition::Destroy, State::Destroyed},
    {State::Lost, Transition::Restored, State::Running},
    {State::Lost, Transition::Start, State::Running}, // it was only out of sight
    {State::Lost, Transition::Stop, State::Stopped},
    {State::Lost, Transition::Attach, State::Attached}, // the same of a borrowed one
    {State::Lost, Transition::Detach, State::Detached},
    {State::Lost, Transition::Destroy, State::Destroyed},
    {State::Failed, Transition::Destroy, State::Destroyed},
    {State::Attached, Transition::Detach, State::Detached},
    {State::Attached, Transition::Missing, State::Lost},
    {State::Detached, Transition::Attach, State::Attached},
};

} // namespace

std::optional<State> next(State from, Transition transition) noexcept
{
    for (const Row& row : kTable)
        if (row.from == from && row.transition == transition) return row.to;
    return std::nullopt;
}

std::string_view to_string(State state) noexcept
{
    switch (state) {
    case State::Creating: return "creating";
    case State::Running: return "running";
    case State::Paused: return "paused";
    case State::Stopped: return "stopped";
    case State::Lost: return "lost";
    case State::Failed: return "failed";
    case State::Attached: return "attached";
    case State::Detached: return "detached";
    case State::Destroyed: return "destroyed";
    }
    return "lost";
}

} // namespace berth
