#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backend/e2b/e2b_backend.hpp"
#include "backend/e2b/hands.hpp"
#include "base/io.hpp"
#include "scripted/archive.hpp"
#include "scripted/files.hpp"

namespace berth::e2b_client {

namespace {

using scripted::Files;
namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kWatchBreath = 10ms;

} // namespace

Task<Result<std::string>> E2bBackend::read_file(SandboxHandle sandbox, FilePath file, Bytes limit)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Result<std::string> {
        std::string out;
        const ByteSink keep = [&](std::string_view bytes) -> Status {
            out += bytes;
            return {};
        };
        DaemonHands hands(cloud, id);
        BERTH_CHECK(Files(hands).read(file, limit, keep));
        return out;
    });
}

Task<Status> E2bBackend::write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                                    std::optional<unsigned> mode)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).write(file, bytes, mode);
    });
}

Task<Result<std::vector<FileEntry>>> E2bBackend::list_files(SandboxHandle sandbox, FilePath directory)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).list(directory);
    });
}

Task<Result<FileEntry>> E2bBackend::stat_file(SandboxHandle sandbox, FilePath file)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).stat(file);
    });
}

Task<Status> E2bBackend::make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).make_dir(directory, parents);
    });
}

Task<Status> E2bBackend::move_file(SandboxHandle sandbox, FilePath from, std::string to)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).move(from, to);
    });
}

Task<Status> E2bBackend::move_over(SandboxHandle sandbox, FilePath from, std::string to)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).move_over(from, to);
    });
}

Task<Status> E2bBackend::remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) {
        DaemonHands hands(cloud, id);
        return Files(hands).remove(file, tree);
    });
}

Task<Result<UniqueFd>> E2bBackend::open_file(SandboxHandle sandbox, FilePath file)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Result<UniqueFd> {
        BERTH_TRY(const auto directory, state_.directory());
        DaemonHands hands(cloud, id);
        return Files(hands).read_aside(file, directory.get());
    });
}

Task<Status> E2bBackend::fill_file(SandboxHandle sandbox, FilePath file, FileContents contents)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        DaemonHands hands(cloud, id);
        return Files(hands).fill(file, contents);
    });
}

Task<Status> E2bBackend::read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                                      ByteSink sink)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        DaemonHands hands(cloud, id);
        Files files(hands);
        return scripted::read_tree(files, directory, options, sink);
    });
}

Task<Status> E2bBackend::write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                                       ArchiveLimits limits)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        DaemonHands hands(cloud, id);
        Files files(hands);
        BERTH_TRY(const auto spool, state_.directory());
        return scripted::write_tree(files, spool.get(), directory, source, limits);
    });
}

Task<Result<std::vector<FileChange>>> E2bBackend::watch(SandboxHandle sandbox, std::string watch,
                                                        FilePath directory, SteadyTime until)
{
    const auto find = [&](Cloud& cloud, const std::string& id) -> Result<std::shared_ptr<Watch>> {
        std::shared_ptr<Watch> one;
        {
            const std::scoped_lock lock(mutex_);
            if (const auto at = watches_.find(watch); at != watches_.end()) return at->second;
        }
        BERTH_TRY(const auto path, scripted::check_path(directory.path));
        one = std::make_shared<Watch>(cloud, id, path, directory.user);
        BERTH_CHECK(one->begin());
        const std::scoped_lock lock(mutex_);
        return watches_[watch] = one;
    };
    BERTH_CO_TRY(const auto one, co_await with(sandbox, find));
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
        const auto time = system_clock().steady();
        BERTH_CO_TRY(auto changes, one->next(time));
        if (!changes.empty() || time >= until) co_return changes;
        timer.expires_at(std::min(until, time + kWatchBreath));
        co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

Task<Status> E2bBackend::unwatch(std::string watch)
{
    co_return co_await pool_.call([&]() -> Status {
        std::shared_ptr<Watch> one;
        const std::scoped_lock lock(mutex_);
        if (const auto at = watches_.find(watch); at != watches_.end()) {
            one = std::move(at->second);
            watches_.erase(at);
        }
        return {};
    });
}

} // namespace berth::e2b_client
