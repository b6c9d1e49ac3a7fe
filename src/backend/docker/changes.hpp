#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/docker/life.hpp"

namespace berth::docker {

/// What an engine tells of a container.
struct EngineEvent {
    std::string container; ///< its id
    std::int64_t nanos = 0;
    bool matters = false; ///< it may run, stand still or be gone now
};

/// Nothing: it is not about a container.
[[nodiscard]] std::optional<EngineEvent> parse_event(const json::Value& document);

/// The engine's events from a moment on, without a gap.
class Changes {
public:
    Changes() : since_(system_clock().now()) {}

    /// Instances of ours that the next events are about; none when the time is over.
    [[nodiscard]] Result<std::vector<SandboxHandle>> next(const Where& where, SteadyTime until);

private:
    WallTime since_;                                ///< from then on nothing was read
    std::optional<std::chrono::nanoseconds> ahead_; ///< of our clock: the engine's, once it was asked
};

/// A moment as an engine's `/info` tells it: "2026-01-02T03:04:05.678Z".
[[nodiscard]] std::optional<WallTime> parse_moment(const std::string& text);

} // namespace berth::docker
