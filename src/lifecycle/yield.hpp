#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lifecycle/lifecycle.hpp"

/// Commands for somebody who takes turns: start one, wait a while, see what there is, come back for more.
/// A yield never kills: what has not ended goes on, and is found again by its id and sequence number.
namespace berth {

/// Why somebody waits; it decides how long at least, and how long when nothing is said.
enum class YieldFor { Start, Write, Poll };

struct YieldWish {
    std::optional<std::chrono::nanoseconds> time;
    std::optional<std::size_t> max_tokens; ///< of about four bytes; nothing: what kMostTokens holds
};

inline constexpr std::size_t kMostTokens = std::size_t{1} << 20;

/// 10 s for a start, a quarter of a second for a write, at least 5 s for a poll; never less than a quarter of
/// a second nor more than half a minute.
[[nodiscard]] std::chrono::nanoseconds yield_time(YieldFor what,
                                                  std::optional<std::chrono::nanoseconds> wish);

struct Yielded {
    std::string exec;
    std::string output;                           ///< of both streams in the order of the log; perhaps cut
    std::optional<ExitStatus> status;             ///< nothing: it runs on
    bool timed_out = false;                       ///< that is why it ended
    std::uint64_t next = 0;                       ///< where the output goes on
    std::uint64_t missing = 0;                    ///< bytes the log itself has lost
    std::optional<std::uint64_t> original_tokens; ///< how many there were, when output was cut
    std::chrono::nanoseconds waited{0};
};

/// What the exec prints from `from` on, until the time is over or it has ended and everything is read.
[[nodiscard]] Task<Result<Yielded>> collect_output(Backend& backend, SandboxHandle sandbox, std::string exec,
                                                   std::uint64_t from, std::chrono::nanoseconds time,
                                                   std::size_t max_tokens);

/// Starts a command in a sandbox that use() made usable.
[[nodiscard]] Task<Result<Yielded>> yield_start(Lifecycle& lifecycle, SandboxRecord sandbox, ExecSpec spec,
                                                YieldWish wish);

/// Types `bytes`, none to only look; `next` is that of the last answer. A command that has ended takes none
/// of them and its end is the answer; one without an input refuses.
[[nodiscard]] Task<Result<Yielded>> yield_write(Lifecycle& lifecycle, SandboxRecord sandbox, std::string exec,
                                                std::uint64_t next, std::string bytes, YieldWish wish);

} // namespace berth
