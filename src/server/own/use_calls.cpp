// How a call comes by its sandbox, and what of that its answer says.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "server/own/api.hpp"

namespace berth::own {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kShort = 250ms; // a quarter of the shortest idle time: what is over by then was noted once

/// For answers that are no document: "restored snap_…; lost_seconds=12.5".
void tell_outcome(http::Exchange& exchange, const Acquired& used)
{
    if (used.tier == Tier::Attached) return;
    std::string outcome(to_string(used.tier));
    if (!used.snapshot.empty()) outcome += " " + used.snapshot;
    if (used.lost)
        outcome += fmt::format("; lost_seconds={}", std::chrono::duration<double>(*used.lost).count());
    if (used.unsynced_since) outcome += "; unsynced_since=" + rfc3339(*used.unsynced_since);
    exchange.add_header("Berth-Outcome", std::move(outcome));
    for (const auto& note : used.notes) exchange.add_header("Berth-Note", printable(note, 600));
}

} // namespace

Task<Result<Acquired>> Api::usable(Call& call)
{
    BERTH_CO_TRY(auto record, co_await record_of(call));
    call.hold.emplace(in_use_.hold(record.id()));
    if (!std::exchange(minding_, true)) spawn(co_await asio::this_coro::executor, mind_use());
    if (record.state == State::Running)
        co_return Acquired{.record = co_await lifecycle().note_use(std::move(record)),
                           .tier = Tier::Attached};
    BERTH_CO_TRY(auto used, co_await lifecycle().use(record.id()));
    tell_outcome(call.exchange, used);
    co_return used;
}

Task<Result<bool>> Api::brought_back(Call& call, Acquired& used, Error why)
{
    const bool may_be = why.code == Code::NotFound || why.code == Code::Conflict;
    if (!may_be || used.tier != Tier::Attached || call.exchange.begun()) co_return false;
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(used.record.backend));
    const auto found = co_await where->inspect(Lifecycle::handle(used.record));
    // A file that is not there is none of this, and a backend that cannot be asked has not said so.
    if (!found || found->health == Health::Unresponsive || found->state == State::Running) co_return false;
    BERTH_CO_TRY(used, co_await lifecycle().use(used.record.id()));
    tell_outcome(call.exchange, used);
    co_return true;
}

/// Those that are used for longer than a moment: an upload that trickles, a connection to a port.
Task<void> Api::mind_use()
{
    asio::steady_timer breath(co_await asio::this_coro::executor);
    while (!leaving_ && !in_use_.empty()) {
        const auto then = system_clock().steady();
        breath.expires_after(kShort);
        co_await breath.async_wait(asio::as_tuple(asio::use_awaitable));
        for (const auto& sandbox : in_use_.before(then))
            if (!leaving_) co_await lifecycle().still_in_use(sandbox);
    }
    minding_ = false;
}

void Api::spawn(const asio::any_io_executor& loop, Task<void> work)
{
    const auto own = attended_.emplace(attended_.end());
    // Its signal lives until the loop has seen its end.
    asio::co_spawn(loop, std::move(work),
                   asio::bind_cancellation_slot(own->slot(), [this, own, loop](const std::exception_ptr&) {
                       asio::post(loop, [this, own] { attended_.erase(own); });
                   }));
}

} // namespace berth::own
