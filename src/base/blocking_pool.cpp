#include "base/blocking_pool.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
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
    const auto home = co_await asio::this_coro::executor;
    co_await asio::post(impl_->threads, asio::use_awaitable);
    work();
    co_await asio::post(home, asio::use_awaitable);
}

} // namespace berth
