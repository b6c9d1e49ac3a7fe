#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "keeping/kept_backend.hpp"

namespace berth::keeping {

namespace {

namespace asio = boost::asio;

/// Returns when the queue has something, or the time is over.
Task<Status> changes_come(const ChangeQueue& queue, SteadyTime until)
{
    using namespace asio::experimental::awaitable_operators;
    const auto executor = co_await asio::this_coro::executor;
    constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
    // A copy: two may wait for one queue, and a loop takes each descriptor once.
    const int copy = ::fcntl(queue.ready(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) co_return fail_errno("waiting for changes of files");
    asio::posix::stream_descriptor ready(executor, copy);
    asio::steady_timer timer(executor, until);
    const auto readable = asio::posix::descriptor_base::wait_read;
    co_await (ready.async_wait(readable, as_value) || timer.async_wait(as_value));
    co_return Status{};
}

} // namespace

Task<Result<std::vector<FileChange>>> KeptBackend::watch(SandboxHandle sandbox, std::string watch,
                                                         FilePath directory, SteadyTime until)
{
    return watch_to(WatchDepth::All, std::move(sandbox), std::move(watch), std::move(directory), until);
}

Task<Result<std::vector<FileChange>>> KeptBackend::watch_one(SandboxHandle sandbox, std::string watch,
                                                             FilePath directory, SteadyTime until)
{
    return watch_to(WatchDepth::One, std::move(sandbox), std::move(watch), std::move(directory), until);
}

Task<Result<std::vector<FileChange>>> KeptBackend::watch_to(WatchDepth depth, SandboxHandle sandbox,
                                                            std::string watch, FilePath directory,
                                                            SteadyTime until)
{
    const WatchHub::Request request{.id = watch,
                                    .sandbox = sandbox.sandbox,
                                    .path = directory.path,
                                    .user = directory.user,
                                    .depth = depth};
    BERTH_CO_TRY(auto queue, watches_->find(request));
    if (!queue) {
        UniqueFd keeper;
        BERTH_CO_TRY(auto files, co_await files_to_watch(sandbox, directory.user, keeper));
        files.hold({}); // a watch changes nothing, and must not keep a snapshot waiting
        const auto begin = [&] { return watches_->begin(request, std::move(files), std::move(keeper)); };
        BERTH_CO_TRY(queue, co_await pool_.call(begin));
    }
    for (;;) {
        const bool last = system_clock().steady() >= until;
        auto changes = queue->take();
        if (!changes) {
            // The last word of this watch: the next call with its name begins another.
            co_await pool_.run([&] { watches_->end(watch); });
            co_return changes;
        }
        if (!changes->empty() || last) co_return changes;
        if (auto waited = co_await changes_come(*queue, until); !waited)
            co_return std::unexpected(std::move(waited).error());
    }
}

Task<Status> KeptBackend::unwatch(std::string watch)
{
    co_await pool_.run([&] { watches_->end(watch); });
    co_return Status{};
}

} // namespace berth::keeping
