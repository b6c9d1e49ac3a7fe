#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/task.hpp"

namespace berth::http {

/// A connection as bytes, whatever carries them. Every wait has a deadline, held by whoever sweeps all
/// channels about once a second. One reader and one writer at a time, on one thread.
class Channel {
public:
    virtual ~Channel() = default;

    /// 0: the other side has ended.
    virtual Task<Result<std::size_t>> read_some(std::span<char> into, SteadyTime until) = 0;
    /// All of it.
    virtual Task<Status> write(std::string_view bytes, SteadyTime until) = 0;
    /// Returns when the other side has hung up.
    virtual Task<void> gone() = 0;
    /// No more will be written; what is on its way arrives.
    virtual void end_writing() noexcept = 0;
    virtual void close() noexcept = 0;
    /// The other side learns that this was not the end.
    virtual void reset() noexcept = 0;

    /// As read_some, behind what `buffer` holds. As long as nothing comes no room is held for it: most
    /// connections wait most of the time.
    virtual Task<Result<std::size_t>> read_behind(std::string& buffer, SteadyTime until) = 0;
    /// As write, of a few pieces in order.
    virtual Task<Status> write_parts(std::span<const std::string_view> parts, SteadyTime until) = 0;

    /// Closes it when a wait is over its deadline.
    void check(SteadyTime now) noexcept
    {
        if (now < read_until_ && now < write_until_) return;
        late_ = true;
        close();
    }
    [[nodiscard]] bool late() const noexcept { return late_; }

protected:
    static constexpr SteadyTime kNever = SteadyTime::max();
    SteadyTime read_until_ = kNever;
    SteadyTime write_until_ = kNever;
    bool late_ = false;

public:
    bool busy = false; ///< a request of it is under way
};

} // namespace berth::http
