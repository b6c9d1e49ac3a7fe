#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "keeping/exec_follower.hpp"

namespace berth::keeping {

/// Followers whose readers will be back in a moment. Whoever streams a log asks for the next events again and
/// again, and to make a follower takes some files and a conversation with the keeper. A few wait, for a few
/// seconds. For any thread.
class IdleFollowers {
public:
    /// One that goes on at `from`; nothing: it has to be made.
    [[nodiscard]] std::optional<ExecFollower> take(const std::string& native, const std::string& exec,
                                                   std::uint64_t from);
    void put(std::string native, std::string exec, ExecFollower follower);

private:
    struct Place {
        std::string native;
        std::string exec;
        ExecFollower follower;
        SteadyTime since;
    };
    void drop_old();

    std::mutex mutex_;
    std::list<Place> places_; ///< the oldest first
};

} // namespace berth::keeping
