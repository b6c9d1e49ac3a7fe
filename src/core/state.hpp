#pragma once

#include <optional>
#include <string_view>

namespace berth {

/// Where a logical sandbox is in its life.
enum class State { Creating, Running, Paused, Stopped, Lost, Failed, Attached, Detached, Destroyed };

/// What happens to it.
enum class Transition {
    Usable,   ///< the instance answers
    Error,    ///< creating it failed; the instance is removed
    Stop,     ///< by request or idle expiry; the file system stays
    Start,    ///< used again
    Pause,    ///< frozen, memory kept
    Resume,   ///< thawed
    Reboot,   ///< the machine went down: memory is gone
    Missing,  ///< the backend says the instance is gone
    Restored, ///< remade from a snapshot, as a new generation
    Detach,   ///< a borrowed instance is let go
    Attach,   ///< and borrowed again
    Destroy,
};

/// The state after `transition`, or nothing when it is not allowed: the one table of it.
[[nodiscard]] std::optional<State> next(State from, Transition transition) noexcept;

[[nodiscard]] std::string_view to_string(State state) noexcept;

} // namespace berth
