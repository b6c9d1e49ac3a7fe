#include "backend/e2b/watch.hpp"

#include "base/strings.hpp"
#include "protocol/e2b/filesystem.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostKept = 16'384; // more and one has to look for oneself
constexpr auto kBreath = 500ms;
constexpr auto kPatience = 30s;

FileChange::Kind kind_of(e2b::WatchEvent type)
{
    switch (type) {
    case e2b::WatchEvent::Create: return FileChange::Kind::Created;
    case e2b::WatchEvent::Write: return FileChange::Kind::Written;
    case e2b::WatchEvent::Remove: return FileChange::Kind::Removed;
    case e2b::WatchEvent::Rename: return FileChange::Kind::Renamed;
    case e2b::WatchEvent::Chmod: return FileChange::Kind::Attributes;
    }
    return FileChange::Kind::Written;
}

} // namespace

Watch::Watch(Cloud& cloud, std::string instance, std::string path, std::string user)
    : cloud_(cloud), instance_(std::move(instance)), path_(std::move(path)), user_(std::move(user)),
      thread_([this] { run(); })
{
}

Watch::~Watch()
{
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    cord_.pull();
    thread_.join();
}

Status Watch::begin()
{
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return begun_ || failed_; });
    if (failed_) return std::unexpected(*failed_);
    if (!begun_) return fail(Code::DeadlineExceeded, "watching {}: the E2B server does not answer", path_);
    return {};
}

Result<std::vector<FileChange>> Watch::next(SteadyTime until)
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return !queue_.empty() || failed_; });
    if (queue_.empty() && failed_) return std::unexpected(*failed_);
    std::vector<FileChange> out(queue_.begin(), queue_.end());
    queue_.clear();
    return out;
}

Status Watch::take(std::string_view message)
{
    BERTH_TRY(auto told, e2b::read_watch_message(message));
    const std::scoped_lock lock(mutex_);
    if (told.started) {
        // A second beginning: nobody knows what happened before it.
        if (begun_) queue_.push_back({.kind = FileChange::Kind::Overflow, .path = {}});
        begun_ = true;
    }
    // The directory itself: nothing follows, though the stream stays.
    if (told.event && told.event->name == "." &&
        (told.event->type == e2b::WatchEvent::Remove || told.event->type == e2b::WatchEvent::Rename))
        return fail(Code::NotFound, "the watched directory {} is gone", path_);
    if (told.event) {
        if (queue_.size() >= kMostKept) {
            queue_.clear();
            queue_.push_back({.kind = FileChange::Kind::Overflow, .path = {}});
        }
        queue_.push_back({.kind = kind_of(told.event->type), .path = std::move(told.event->name)});
    }
    changed_.notify_all();
    return {};
}

void Watch::run()
{
    for (SteadyTime heard = system_clock().steady();;) {
        Error why;
        auto session = cloud_.session(instance_);
        if (session) {
            const auto on_message = [&](std::string_view text) {
                heard = system_clock().steady();
                return take(text);
            };
            auto end = cloud_.envd().stream(*session, "filesystem.Filesystem/WatchDir",
                                            e2b::watch_request(path_, true), user_, on_message, cord_);
            why = end.told && end.failure ? connect::error_of(*end.failure) : std::move(end.cut);
            why.message = printable(why.message, 300);
            if (not_running(why)) cloud_.forget(instance_);
        } else {
            why = std::move(session).error();
        }
        std::unique_lock lock(mutex_);
        if (stopping_) return;
        const bool hopeless = why.code != Code::Unavailable && why.code != Code::DeadlineExceeded;
        if (!begun_ || hopeless || system_clock().steady() - heard > kPatience) {
            failed_ = std::move(why);
            changed_.notify_all();
            return;
        }
        changed_.wait_for(lock, kBreath, [&] { return stopping_; });
        if (stopping_) return;
    }
}

} // namespace berth::e2b_client
