#include "base/blocking_pool.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <stdexcept>
#include <thread>

#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "support/run_task.hpp"

namespace berth {
namespace {

struct Threads {
    std::thread::id before, during, after;
};

Task<Threads> where(BlockingPool& pool)
{
    Threads seen;
    seen.before = std::this_thread::get_id();
    co_await pool.run([&] { seen.during = std::this_thread::get_id(); });
    seen.after = std::this_thread::get_id();
    co_return seen;
}

TEST(BlockingPool, WorksElsewhereAndComesHome)
{
    BlockingPool pool(1);
    const auto seen = run_task(where(pool));
    EXPECT_NE(seen.during, seen.before);
    EXPECT_EQ(seen.after, seen.before);
}

Task<int> sum(BlockingPool& pool)
{
    const auto one = [] { return 1; };
    const int first = co_await pool.call(one);
    co_return first + co_await pool.call(one);
}

TEST(BlockingPool, AnswersWithAValue)
{
    BlockingPool pool(2);
    EXPECT_EQ(run_task(sum(pool)), 2);
}

TEST(BlockingPool, LeavesTheLoopFreeWhileItWorks)
{
    BlockingPool pool(1);
    boost::asio::io_context loop;
    std::atomic<bool> started = false;
    std::promise<void> gate;
    bool opened = false;
    const auto blocked = [&]() -> Task<void> {
        co_await pool.run([&] {
            started = true;
            opened = gate.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
        });
    };
    // Another task of the same loop opens the gate, once somebody waits there.
    const auto opens = [&]() -> Task<void> {
        while (!started) co_await boost::asio::post(loop, boost::asio::use_awaitable);
        gate.set_value();
    };
    boost::asio::co_spawn(loop, blocked, boost::asio::detached);
    boost::asio::co_spawn(loop, opens, boost::asio::detached);
    loop.run();
    EXPECT_TRUE(opened);
}

TEST(BlockingPool, UsesAllItsThreads)
{
    BlockingPool pool(2);
    boost::asio::io_context loop;
    std::latch both(2);
    std::atomic<int> done = 0;
    const auto meets = [&]() -> Task<void> {
        co_await pool.run([&] { both.arrive_and_wait(); });
        ++done;
    };
    boost::asio::co_spawn(loop, meets, boost::asio::detached);
    boost::asio::co_spawn(loop, meets, boost::asio::detached);
    loop.run();
    EXPECT_EQ(done, 2);
}

Task<int> throws(BlockingPool& pool)
{
    try {
        co_await pool.run([] { throw std::runtime_error("work"); });
    } catch (const std::runtime_error&) {
        co_return 1;
    }
    co_return 0;
}

TEST(BlockingPool, BringsHomeWhatTheWorkThrew)
{
    BlockingPool pool(1);
    EXPECT_EQ(run_task(throws(pool)), 1);
}

} // namespace
} // namespace berth
