#include "backend/e2b/keep_alive.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace berth::e2b_client {

KeepAlive::KeepAlive(Cloud& cloud, std::function<std::set<std::string>()> busy)
    : cloud_(cloud), busy_(std::move(busy)), thread_([this] { run(); })
{
}

KeepAlive::~KeepAlive()
{
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void KeepAlive::run()
{
    const auto time = cloud_.config().timeout;
    // Twice may fail before it is too late; and a plan may give less than was asked for, but an hour.
    const auto interval =
        std::min<std::chrono::milliseconds>(std::chrono::milliseconds(time) / 3, std::chrono::minutes(20));
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (changed_.wait_for(lock, interval, [&] { return stopping_; })) return;
        }
        for (const auto& id : busy_()) {
            const auto done = cloud_.api().set_timeout(id, time);
            if (!done)
                log::debug("a sandbox's time was not lengthened", {{"id", id}, {"why", done.error().line()}});
        }
    }
}

} // namespace berth::e2b_client
