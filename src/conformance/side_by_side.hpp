#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "conformance/context.hpp"

namespace berth::conformance {

namespace side_by_side {

template <class T> using Answers = std::shared_ptr<std::vector<std::optional<Result<T>>>>;
using Timer = boost::asio::steady_timer;

template <class T>
Task<void> one(Task<Result<T>> task, Answers<T> into, std::size_t at, std::shared_ptr<std::size_t> open,
               std::shared_ptr<Timer> last)
{
    (*into)[at] = co_await std::move(task);
    if (--*open == 0) last->cancel();
}

template <class T> Task<void> all(std::vector<Task<Result<T>>> tasks, Answers<T> into)
{
    const auto executor = co_await boost::asio::this_coro::executor;
    const auto open = std::make_shared<std::size_t>(tasks.size());
    const auto last = std::make_shared<Timer>(executor, Timer::time_point::max());
    for (std::size_t i = 0; i < tasks.size(); ++i)
        boost::asio::co_spawn(executor, one(std::move(tasks[i]), into, i, open, last), boost::asio::detached);
    while (*open > 0) {
        boost::system::error_code cancelled;
        co_await last->async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    }
}

} // namespace side_by_side

/// Several tasks on one loop, none waiting for another; the answers in the order of the tasks.
template <class T> std::vector<Result<T>> await_all(Context& c, std::vector<Task<Result<T>>> tasks)
{
    auto into = std::make_shared<std::vector<std::optional<Result<T>>>>(tasks.size());
    (void)c.place().finish(side_by_side::all<T>(std::move(tasks), into));
    std::vector<Result<T>> out;
    for (auto& value : *into) {
        if (value)
            out.push_back(*std::move(value));
        else
            out.push_back(fail(Code::DeadlineExceeded, "the backend did not answer in time"));
    }
    return out;
}

} // namespace berth::conformance
