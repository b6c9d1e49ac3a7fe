#include "backend/local/execs_ahead.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kMoment = 10ms; ///< without another: one exec after the other would only wait for this
constexpr auto kUnused = 10s;  ///< then another sandbox may have the place

SteadyTime now() { return system_clock().steady(); }

} // namespace

ExecsAhead::~ExecsAhead()
{
    {
        const std::scoped_lock lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void ExecsAhead::begun(const std::string& native)
{
    const std::scoped_lock lock(mutex_);
    const auto is_it = [&](const One& one) { return one.native == native; };
    std::erase_if(made_, is_it); // the exec has taken it
    std::erase_if(wanted_, is_it);
    wanted_.push_back({.native = native, .when = now() + kMoment});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
}

bool ExecsAhead::make_room(std::unique_lock<std::mutex>& lock)
{
    if (made_.size() < kMost) return true;
    if (now() - made_.front().when < kUnused) return false;
    const auto old = std::move(made_.front().native);
    made_.pop_front();
    lock.unlock();
    drop_(old);
    lock.lock();
    return true;
}

void ExecsAhead::run()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return over_ || !wanted_.empty(); });
        if (over_) return;
        // A copy, and looked at again: while we wait another exec may begin there.
        if (const auto when = wanted_.front().when; now() < when) {
            changed_.wait_until(lock, when);
            continue;
        }
        const auto native = std::move(wanted_.front().native);
        wanted_.pop_front();
        if (!make_room(lock)) continue;
        made_.push_back({.native = native, .when = now()});
        lock.unlock();
        make_(native);
        lock.lock();
    }
}

} // namespace berth::local
