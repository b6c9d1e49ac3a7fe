#pragma once

#include <set>
#include <string>

#include "berth/berth.hpp"
#include "server/http/beat.hpp"

namespace berth::server {

/// What time does to sandboxes while a server runs, whoever made them: the idle are stopped, the overdue
/// destroyed, and what a killed process left is finished or removed. Every sandbox is touched under its lock
/// alone, so any number of servers and of `berth gc` agree.
class Sweeping {
public:
    Sweeping(Lifecycle& lifecycle, const boost::asio::any_io_executor& executor);

    /// Everything at once, then deadlines every few seconds and everything each minute.
    void start();
    /// Returns when what was begun is done; no more is begun.
    Task<void> end();

    [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
    [[nodiscard]] std::uint64_t failed() const noexcept { return failed_; }

private:
    Task<void> sweep();
    /// Whether all went well. What fails again and again is told once.
    bool tell(const Result<GcReport>& report);

    Lifecycle& lifecycle_;
    http::Beat beat_;
    SteadyTime next_deadlines_{};
    SteadyTime next_all_{};
    std::set<std::string> told_; ///< failures of the last time
    std::uint64_t done_ = 0;
    std::uint64_t failed_ = 0;
    bool over_ = false;
};

} // namespace berth::server
