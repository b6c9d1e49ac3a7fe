#include "keeping/idle_followers.hpp"

namespace berth::keeping {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMost = 64; // each has five descriptors, and a place at its keeper
constexpr auto kLongest = 5s;
constexpr auto kLongestAttending = 24h; // its reader may be a terminal that somebody has stopped

} // namespace

void IdleFollowers::drop_old()
{
    const auto now = system_clock().steady();
    std::erase_if(places_, [&](const Place& one) {
        return now >=
               one.since + (one.follower.attends() ? std::chrono::seconds(kLongestAttending) : kLongest);
    });
    while (places_.size() > kMost) places_.pop_front();
}

std::optional<ExecFollower> IdleFollowers::take(const std::string& native, const std::string& exec,
                                                std::uint64_t from)
{
    const std::scoped_lock lock(mutex_);
    drop_old();
    for (auto at = places_.begin(); at != places_.end(); ++at) {
        if (at->exec != exec || at->native != native || at->follower.position() != from) continue;
        std::optional<ExecFollower> taken(std::move(at->follower));
        places_.erase(at);
        return taken;
    }
    return std::nullopt;
}

void IdleFollowers::put(std::string native, std::string exec, ExecFollower follower)
{
    const std::scoped_lock lock(mutex_);
    places_.push_back({.native = std::move(native),
                       .exec = std::move(exec),
                       .follower = std::move(follower),
                       .since = system_clock().steady()});
    drop_old();
}

} // namespace berth::keeping
