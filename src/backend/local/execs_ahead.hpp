#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.hpp"

namespace berth::local {

/// Has the files and the group of a sandbox's next exec made while nobody waits for them: on a disk where
/// much was deleted lately they take longer than all the rest. Few sandboxes have some at a time, those that
/// were worked with last; the others' are made when they are asked for.
class ExecsAhead {
public:
    using Work = std::function<void(const std::string& native)>;
    static constexpr std::size_t kMost = 64;

    /// Both are called on a thread of its own, one at a time.
    ExecsAhead(Work make, Work drop) : make_(std::move(make)), drop_(std::move(drop)) {}
    ExecsAhead(const ExecsAhead&) = delete;
    ExecsAhead& operator=(const ExecsAhead&) = delete;
    /// Waits for what is under way, and forgets the rest.
    ~ExecsAhead();

    /// One has begun there, and another may follow.
    void begun(const std::string& native);

private:
    struct One {
        std::string native;
        SteadyTime when;
    };
    void run();
    /// Makes room among those that have some; false: all were worked with a moment ago.
    [[nodiscard]] bool make_room(std::unique_lock<std::mutex>& lock);

    Work make_, drop_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<One> wanted_; ///< by the time of their execs
    std::deque<One> made_;   ///< the oldest first
    bool over_ = false;
    std::thread thread_; ///< begun with the first that is wanted
};

} // namespace berth::local
