#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "base/task.hpp"

namespace berth {

/// A few threads for work that blocks (fsync, libarchive, launching a process), so that the
/// event loop never waits. Destroying the pool finishes what was begun and refuses the rest.
class BlockingPool {
public:
    explicit BlockingPool(std::size_t threads);
    BlockingPool(const BlockingPool&) = delete;
    BlockingPool& operator=(const BlockingPool&) = delete;
    ~BlockingPool();

    /// Runs `work` on a thread of the pool and resumes the caller on its own executor.
    Task<void> run(std::function<void()> work);

    /// The same for work with a value.
    template <class F> auto call(F work) -> Task<decltype(work())>
    {
        std::optional<decltype(work())> value;
        std::function<void()> job = [&] { value.emplace(work()); };
        co_await run(std::move(job));
        co_return *std::move(value);
    }

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace berth
