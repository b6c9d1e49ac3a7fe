#include "base/blocking_pool.hpp"

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace berth {

namespace asio = boost::asio;

struct BlockingPool::Impl {
    asio::thread_pool threads;
};

BlockingPool::BlockingPool(std::size_t threads) : impl_(new Impl{asio::thread_pool(threads)}) {}

BlockingPool::~BlockingPool() { impl_->threads.join(); }

Task<void> BlockingPool::run(std::function<void()> work)
{
    // Not `co_await post(threads)`: that only passes through the pool and resumes on the caller's own
    // executor, the loop. Here the coroutine stays suspended while the work runs elsewhere.
    const auto begin = [this](auto handler, std::function<void()> job) {
        auto home = asio::get_associated_executor(handler);
        auto busy = asio::make_work_guard(home);
        asio::post(impl_->threads, [job = std::move(job), handler = std::move(handler), home,
                                    busy = std::move(busy)]() mutable {
            std::exception_ptr thrown;
            try {
                job();
            } catch (...) {
                thrown = std::current_exception();
            }
            asio::post(home,
                       [handler = std::move(handler), thrown]() mutable { std::move(handler)(thrown); });
        });
    };
    return asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
        begin, asio::use_awaitable, std::move(work));
}

} // namespace berth
