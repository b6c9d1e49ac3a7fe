#include "keeping/watch_hub.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "base/log.hpp"
#include "base/strings.hpp"

namespace berth::keeping {

std::shared_ptr<WatchHub> WatchHub::of_process()
{
    static std::mutex mutex;
    static std::weak_ptr<WatchHub> present;
    const std::scoped_lock lock(mutex);
    auto hub = present.lock();
    if (!hub) present = hub = std::make_shared<WatchHub>();
    return hub;
}

WatchHub::~WatchHub()
{
    {
        const std::scoped_lock lock(trees_);
        stop_ = true;
    }
    poke();
    if (thread_.joinable()) thread_.join();
}

Status WatchHub::start()
{
    if (thread_.joinable()) return {};
    if (!numbers_) {
        BERTH_TRY(auto inotify, sys::Inotify::open());
        numbers_ = std::make_unique<Numbers>(std::move(inotify));
    }
    if (!poke_) poke_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!poke_) return fail_errno("making an eventfd");
    // The thread inherits our mask: signals stay the business of the threads that wait for them.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { loop(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return {};
}

Result<std::shared_ptr<ChangeQueue>> WatchHub::find(const Request& request) const
{
    const std::scoped_lock lock(names_);
    const auto at = watches_.find(request.id);
    if (at == watches_.end()) return std::shared_ptr<ChangeQueue>();
    const Request& known = at->second->request;
    if (known.sandbox != request.sandbox || known.path != request.path || known.user != request.user ||
        known.depth != request.depth)
        return fail(Code::Conflict, "watch {} is of {} in sandbox {}", printable(request.id, 60),
                    printable(known.path), known.sandbox);
    return at->second->queue;
}

Result<std::shared_ptr<ChangeQueue>> WatchHub::begin(const Request& request, sys::SandboxFiles files,
                                                     UniqueFd keeper)
{
    BERTH_TRY(auto queue, ChangeQueue::make());
    const std::scoped_lock lock(trees_);
    BERTH_TRY(auto known, find(request)); // somebody was faster
    if (known) return known;
    BERTH_CHECK(start());
    auto watch =
        std::make_shared<Watch>(Watch{.request = request,
                                      .tree = WatchedTree(std::move(files), request.path, request.depth),
                                      .queue = queue,
                                      .keeper = std::move(keeper)});
    if (auto begun = watch->tree.begin(*numbers_); !begun) {
        watch->tree.end(*numbers_);
        return std::unexpected(std::move(begun).error().while_doing("watching " + printable(request.path)));
    }
    {
        const std::scoped_lock names(names_);
        watches_.emplace(request.id, std::move(watch));
    }
    poke();
    return queue;
}

void WatchHub::end(const std::string& id)
{
    std::shared_ptr<Watch> ended; // its thread is waited for after the locks
    const std::scoped_lock lock(trees_);
    {
        const std::scoped_lock names(names_);
        const auto at = watches_.find(id);
        if (at == watches_.end()) return;
        ended = std::move(at->second);
        watches_.erase(at);
    }
    ended->tree.end(*numbers_);
    ended->queue->end(
        {.code = Code::NotFound, .message = fmt::format("watch {} was ended", printable(id, 60))});
    poke(); // the thread has its keeper in hand
}

void WatchHub::poke() const noexcept
{
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(poke_.get(), &one, sizeof one);
}

/// It stays in the list so that whoever asks is told; its hold on the sandbox's files does not.
void WatchHub::finish(Watch& watch, Error why)
{
    watch.over = true;
    watch.queue->end(std::move(why));
    watch.tree.end(*numbers_);
    watch.keeper.reset();
}

void WatchHub::see_all()
{
    const auto events = numbers_->inotify().read();
    if (!events) {
        log::error("changes of files cannot be read", {{"error", events.error().line()}});
        return;
    }
    std::vector<std::shared_ptr<Watch>> all;
    {
        const std::scoped_lock names(names_);
        for (const auto& [id, watch] : watches_) all.push_back(watch);
    }
    for (const auto& event : *events) {
        for (const auto& watch : all) {
            if (watch->over) continue;
            if (auto seen = watch->tree.see(event, *numbers_, *watch->queue); !seen)
                finish(*watch, std::move(seen).error());
        }
        if (event.kind == sys::DirectoryEvent::Kind::Gone) numbers_->forget(event.watch);
    }
}

void WatchHub::loop()
{
    for (;;) {
        std::vector<pollfd> ready{{.fd = numbers_->inotify().descriptor(), .events = POLLIN, .revents = 0},
                                  {.fd = poke_.get(), .events = POLLIN, .revents = 0}};
        std::vector<std::shared_ptr<Watch>> of;
        {
            const std::scoped_lock lock(trees_);
            if (stop_) return;
            const std::scoped_lock names(names_);
            for (const auto& [id, watch] : watches_) {
                if (watch->over) continue;
                of.push_back(watch);
                ready.push_back({.fd = watch->keeper.get(), .events = POLLIN, .revents = 0});
            }
        }
        ::poll(ready.data(), ready.size(), -1);
        std::uint64_t count = 0;
        [[maybe_unused]] const auto n = ::read(poke_.get(), &count, sizeof count);
        const std::scoped_lock lock(trees_);
        if (ready[0].revents != 0) see_all(); // what was changed before the end is told before it
        for (std::size_t i = 0; i < of.size(); ++i)
            if (ready[i + 2].revents != 0 && !of[i]->over)
                finish(*of[i], {.code = Code::Unavailable,
                                .message = fmt::format("sandbox {} has ended, and with it its watch",
                                                       of[i]->request.sandbox)});
    }
}

} // namespace berth::keeping
