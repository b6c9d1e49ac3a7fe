// What counts as use. A command is recorded by itself; files, ports and being found again are told here.

#include <algorithm>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds kOnce = 1s;    ///< so often a use is written at most
constexpr nanoseconds kLonger = 30s; ///< so often that of something that takes long

/// A quarter of its idle time at most: whoever looks meanwhile finds it used.
nanoseconds within_idle(const SandboxRecord& record, nanoseconds most)
{
    const auto& idle = record.retention.idle;
    return idle ? std::min<nanoseconds>(most, nanoseconds(*idle) / 4) : most;
}

} // namespace

/// A machine of somebody else's ends what is idle by itself: it is told, too, but not with every use.
Task<Status> Lifecycle::tell_backend(const SandboxRecord& record)
{
    const auto& idle = record.retention.idle;
    if (!idle) co_return Status{};
    const auto now = clock_.steady();
    {
        const std::scoped_lock alone(telling_);
        constexpr std::size_t most = 10'000;
        if (told_in_use_.size() >= most) told_in_use_.clear();
        const auto [at, first] = told_in_use_.try_emplace(record.id(), now);
        if (!first && now < at->second + *idle / 4) co_return Status{};
        at->second = now;
    }
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    co_return co_await where->keep_alive(handle(record), *idle);
}

Task<SandboxRecord> Lifecycle::note_use(SandboxRecord record)
{
    const auto now = clock_.now();
    if (now < record.last_used + within_idle(record, kOnce)) co_return record;
    auto told = co_await tell_backend(record);
    record.last_used = std::max(record.last_used, now);
    record.due = record.deadline();
    const auto written =
        co_await stored([&](Store& store) { return store.touch(record.id(), record.last_used); });
    if (told && !written) told = written;
    if (!told) log::debug("a use was not noted", {{"sandbox", record.id()}, {"why", told.error().line()}});
    co_return record;
}

Task<nanoseconds> Lifecycle::still_in_use(std::string id)
{
    const auto found = co_await stored([&](Store& store) { return store.find(id); });
    // What is over, or cannot be read now, is looked at again: it may come back.
    if (!found || !*found || (*found)->over()) co_return kOnce;
    const auto& record = **found;
    if (clock_.now() >= record.last_used + within_idle(record, kLonger)) co_await note_use(record);
    co_return within_idle(record, kOnce);
}

Task<void> Lifecycle::hold(std::vector<std::string> sandboxes)
{
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    for (;;) {
        auto pause = kOnce;
        for (const auto& id : sandboxes) pause = std::min(pause, co_await still_in_use(id));
        timer.expires_after(pause);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
}

} // namespace berth
