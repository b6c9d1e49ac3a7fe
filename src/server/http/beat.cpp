#include "server/http/beat.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.hpp"
#include "base/scope_exit.hpp"

namespace berth::http {

namespace asio = boost::asio;

Beat::Beat(const asio::any_io_executor& executor, std::chrono::milliseconds every)
    : timer_(executor), every_(every)
{
}

void Beat::start(Work work)
{
    running_ = true;
    asio::co_spawn(timer_.get_executor(), go_on(std::move(work)), asio::detached);
}

Task<void> Beat::go_on(Work work)
{
    const ScopeExit done([this] { running_ = false; });
    while (!over_) {
        try {
            co_await work();
        } catch (const std::exception& e) {
            log::error("what a server does now and then failed", {{"what", e.what()}});
        }
        if (over_) break;
        timer_.expires_after(every_);
        (void)co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

Task<void> Beat::end()
{
    over_ = true;
    timer_.cancel();
    asio::steady_timer moment(timer_.get_executor());
    while (running_) {
        moment.expires_after(std::chrono::milliseconds(1));
        (void)co_await moment.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

} // namespace berth::http
