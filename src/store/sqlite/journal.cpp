#include "store/sqlite/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "base/log.hpp"
#include "base/unique_fd.hpp"

namespace berth::store {

namespace {
constexpr std::chrono::milliseconds kMoment{10};
}

Journal::~Journal()
{
    {
        const std::scoped_lock lock(mutex_);
        over_ = true;
        changed_.notify_all();
    }
    if (behind_.joinable()) behind_.join();
}

Status Journal::sync()
{
    std::unique_lock lock(mutex_);
    return sync(lock);
}

Status Journal::sync(std::unique_lock<std::mutex>& lock)
{
    const auto mine = ++asked_;
    while (served_ < mine) {
        if (busy_) {
            changed_.wait(lock);
            continue;
        }
        busy_ = true;
        soon_ = false;
        const auto now = asked_; // whoever asks from here on has committed something that may be missed
        lock.unlock();
        auto done = bring();
        lock.lock();
        busy_ = false;
        served_ = now;
        last_ = std::move(done);
        changed_.notify_all();
    }
    return last_;
}

void Journal::sync_soon()
{
    const std::scoped_lock lock(mutex_);
    soon_ = true;
    if (!behind_.joinable()) behind_ = std::thread([this] { sync_behind(); });
    changed_.notify_all();
}

void Journal::sync_behind()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return soon_ || over_; });
        // The end of a short command is synced by then, and its beginning with it.
        changed_.wait_for(lock, kMoment, [this] { return !soon_ || over_; });
        if (!soon_ && over_) return;
        if (!soon_) continue;
        if (auto done = sync(lock); !done)
            log::error("what commands were started may not outlive a crash", {{"why", done.error().line()}});
    }
}

/// SQLite holds no locks on this file, so that closing it frees none of another connection's (fcntl(2)). What
/// is not in it any more was brought to the store itself, and to the disk, by whoever took it away.
Status Journal::bring()
{
    const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file && errno == ENOENT) return {};
    if (!file) return fail_errno("opening {}", path_);
    if (::fdatasync(file.get()) != 0) return fail_errno("bringing {} to the disk", path_);
    if (listed_) return {};
    const UniqueFd above(
        ::open(path_.substr(0, path_.find_last_of('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!above || ::fsync(above.get()) != 0) return fail_errno("bringing the name of {} to the disk", path_);
    listed_ = true;
    return {};
}

} // namespace berth::store
