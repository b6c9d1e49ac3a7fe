#include "keeping/log_wait.hpp"

#include <poll.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/scope_exit.hpp"

namespace berth::keeping {

namespace asio = boost::asio;

Task<void> log_grows(const ExecFollower& follower, SteadyTime until)
{
    using namespace asio::experimental::awaitable_operators;
    const auto executor = co_await asio::this_coro::executor;
    constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
    asio::steady_timer timer(executor, until);
    // The follower owns the descriptors.
    asio::posix::stream_descriptor wake(executor, follower.wake_descriptor());
    asio::posix::stream_descriptor keeper(executor, follower.keeper_descriptor());
    ScopeExit release([&] {
        wake.release();
        keeper.release();
    });
    const auto readable = asio::posix::descriptor_base::wait_read;
    co_await (wake.async_wait(readable, as_value) || keeper.async_wait(readable, as_value) ||
              timer.async_wait(as_value));
}

bool clear_growth(const ExecFollower& follower)
{
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(follower.wake_descriptor(), &count, sizeof count);
    pollfd keeper{.fd = follower.keeper_descriptor(), .events = POLLIN, .revents = 0};
    return keeper.fd >= 0 && ::poll(&keeper, 1, 0) == 0;
}

} // namespace berth::keeping
