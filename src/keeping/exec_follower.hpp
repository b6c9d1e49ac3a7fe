#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/exec_event.hpp"
#include "keeping/exec_log.hpp"
#include "keeping/keeper_client.hpp"

namespace berth::keeping {

/// The right to attend an exec, for as long as it is open. Empty: it cannot be had, or another one has it.
[[nodiscard]] UniqueFd attend_log(const ExecLog& log);

/// Reads the log of an exec from any sequence number on, while it grows and afterwards. Any number of
/// processes may follow one log; none of them can be told apart by the command.
class ExecFollower {
public:
    /// Of a log nobody writes to any more, or whose keeper cannot be asked: it is polled.
    [[nodiscard]] static Result<ExecFollower> read(ExecLog log, std::uint64_t from);

    /// Of a living exec: `keeper` is a connection of the follower's own, and wakes it.
    [[nodiscard]] static Result<ExecFollower> follow(ExecLog log, std::uint64_t exec, std::uint64_t from,
                                                     KeeperClient keeper);

    using Deadline = std::chrono::steady_clock::time_point;

    /// What has come since: at least one event, or none when the time is over, the log has ended, or
    /// the keeper has just gone. Records next to one another are one event: its sequence number is that of
    /// the last, so that `sequence + 1` is where to go on, and no two events have the same. A record that the
    /// gap runs through is a part of the gap.
    [[nodiscard]] Result<std::vector<ExecEvent>> next(Deadline until);

    /// What has come by now, without waiting for anything, not even the disk; nothing: only next() can tell.
    [[nodiscard]] std::optional<Result<std::vector<ExecEvent>>> next_at_once();

    /// From now on the command waits for us where it would else lose what we have not read: for one who reads
    /// from the beginning and takes what next() gave before he calls it again. No failure where it cannot be
    /// had, or another one attends.
    void attend() { attend(attend_log(log_)); }
    /// The same with what attend_log() gave before the command was started.
    void attend(UniqueFd attendance);
    [[nodiscard]] bool attends() const noexcept { return static_cast<bool>(attendance_); }

    /// `closed` was delivered: nothing can follow.
    [[nodiscard]] bool ended() const noexcept { return ended_; }
    /// The keeper has hung up before `closed`: somebody should repair the log.
    [[nodiscard]] bool keeper_gone() const noexcept { return gone_; }
    /// For who waits on an event loop; borrowed, -1 where there is no keeper. The first is readable when
    /// the log has grown since next() was called last, the second when the keeper has gone.
    [[nodiscard]] int wake_descriptor() const noexcept { return wake_.get(); }
    [[nodiscard]] int keeper_descriptor() const noexcept { return keeper_ ? keeper_->socket() : -1; }
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    /// The keeper has ended it because its time was over.
    [[nodiscard]] Result<bool> overdue() const;

private:
    ExecFollower(ExecLog log, std::uint64_t from) : log_(std::move(log)), position_(from) {}
    Result<std::vector<ExecEvent>> take();
    void tell_taken();
    Status take_stream(const std::vector<keeper::Record>& records, std::size_t first, std::size_t last,
                       std::vector<ExecEvent>& events);
    Status wait(Deadline until);

    ExecLog log_;
    std::optional<KeeperClient> keeper_;
    UniqueFd wake_;
    std::uint64_t position_;
    UniqueFd attendance_;                    ///< an index of our own, locked
    std::uint64_t told_ = 0;                 ///< how much of it we have taken, as it says there
    std::array<std::uint64_t, 2> reached_{}; ///< logical offset up to which each stream was delivered
    bool busy_ = false;
    bool gone_ = false;
    bool ended_ = false;
    bool waits_ = false; ///< its file system cannot do without
};

} // namespace berth::keeping
