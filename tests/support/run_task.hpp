#pragma once

#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "base/task.hpp"

namespace berth {

/// Runs a coroutine to its end on a loop of its own and answers with its value.
template <class T> T run_task(Task<T> task)
{
    boost::asio::io_context loop;
    std::optional<T> value;
    boost::asio::co_spawn(loop, std::move(task), [&](std::exception_ptr thrown, T result) {
        if (thrown) std::rethrow_exception(thrown);
        value.emplace(std::move(result));
    });
    loop.run();
    return *std::move(value);
}

} // namespace berth
