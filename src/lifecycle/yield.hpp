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
    std::optional<std::size_t> taken;             ///< of the bytes that were to be typed
    std::chrono::nanoseconds waited{0};
};

/// What is typed before the wait; nothing of it: only a look.
struct YieldInput {
    std::string bytes;
    std::optional<std::uint64_t> write; ///< up to kMostWrites; the same again writes nothing twice
    bool close = false;                 ///< behind the bytes comes their end
    [[nodiscard]] bool asked() const { return !bytes.empty() || close; }
};

/// What the exec prints from `from` on, until the time is over or it has ended and everything is read.
/// `ended`: how, where that is known already; it may lie before `from`.
[[nodiscard]] Task<Result<Yielded>> collect_output(Backend& backend, SandboxHandle sandbox, std::string exec,
                                                   std::uint64_t from, std::chrono::nanoseconds time,
                                                   std::size_t max_tokens,
                                                   std::optional<ExitStatus> ended = {});

/// Starts a command in a sandbox that use() made usable.
[[nodiscard]] Task<Result<Yielded>> yield_start(Lifecycle& lifecycle, SandboxRecord sandbox, ExecSpec spec,
                                                YieldWish wish);

/// Types, or only looks; `next` is that of the last answer. What the command does not read in time it has not
/// taken. One that has ended takes nothing and its end is the answer; one without an input refuses.
[[nodiscard]] Task<Result<Yielded>> yield_write(Lifecycle& lifecycle, SandboxRecord sandbox, std::string exec,
                                                std::uint64_t next, YieldInput input, YieldWish wish);

} // namespace berth
