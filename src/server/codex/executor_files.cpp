// fs/* of this host: the decision of the intent, then the operation with the rights that it has.
#include "server/codex/executor.hpp"

#include <algorithm>
#include <utility>

#include "keeping/protect.hpp"
#include "server/codex/binder.hpp"
#include "server/codex/host_place.hpp"
#include "server/codex/real_paths.hpp"
#include "server/codex/watches.hpp"

namespace berth::codex {

namespace {

files::Follow follow_of(const PathParams& params)
{
    return params.follow ? files::Follow::Yes : files::Follow::No;
}

} // namespace

template <class F>
auto Executor::on_files(BlockingPool& pool, const std::optional<Intent>& intent, const std::string& path,
                        F work, std::stop_token left)
    -> Task<Outcome<typename std::invoke_result_t<F, const Bound&>::value_type>>
{
    co_return co_await on_bound(
        pool, intent,
        [&](Bound& bound) { return as_confined(bound, path, [&] { return work(std::as_const(bound)); }); },
        left);
}

template <class F>
auto Executor::on_bound(BlockingPool& pool, const std::optional<Intent>& intent, F work, std::stop_token left)
    -> Task<Outcome<typename std::invoke_result_t<F, Bound&>::value_type>>
{
    using Done = std::invoke_result_t<F, Bound&>;
    co_return co_await pool.call([&]() -> Outcome<typename Done::value_type> {
        if (left.stop_requested()) return refuse(-32603, "the connection is gone");
        auto bound = bind_files(intent);
        if (!bound) return refuse(-32602, bound.error().line());
        bound->left = left;
        auto done = work(*bound);
        if constexpr (std::is_void_v<typename Done::value_type>) {
            if (done) return {};
        } else {
            if (done) return *std::move(done);
        }
        auto failed = file_failed(done.error());
        // Looking around without an intent: what a stranger may not see is not there.
        if (!intent && bound->confined && done.error().sys.value() == EACCES)
            return refuse(kNotFound, "No such file or directory (os error 2)");
        return failed;
    });
}

Task<Outcome<files::Metadata>> Executor::metadata(PathParams p)
{
    co_return co_await on_bound(pool_, p.sandbox,
                                [&](Bound& bound) -> Result<files::Metadata> {
                                    auto found = as_confined(bound, p.path, [&] {
                                        return files::metadata(bound, p.path, follow_of(p));
                                    });
                                    if (found && found->directory && is_stand_in(p.path))
                                        return files::refused(ENOENT, p.path);
                                    return found;
                                },
                                {});
}

Task<Outcome<std::string>> Executor::canonical(PathParams p)
{
    co_return co_await on_files(pool_, p.sandbox, p.path,
                                [&](const Bound& b) { return files::canonical(b, p.path); });
}

Task<Outcome<std::string>> Executor::read(PathParams p)
{
    co_return co_await on_files(pool_, p.sandbox, p.path,
                                [&](const Bound& b) { return files::read(b, p.path, follow_of(p)); });
}

Task<Outcome<void>> Executor::write(WriteFileParams p)
{
    co_return co_await on_files(pool_, p.sandbox, p.path, [&](const Bound& b) {
        return files::write(b, p.path, p.bytes, follow_of(p));
    });
}

Task<Outcome<void>> Executor::make_directory(PathParams p)
{
    co_return co_await on_files(pool_, p.sandbox, p.path, [&](const Bound& b) {
        return files::make_directory(b, p.path, p.recursive, follow_of(p));
    });
}

Task<Outcome<void>> Executor::remove(PathParams p, std::stop_token left)
{
    co_return co_await on_files(
        p.recursive ? slow_ : pool_, p.sandbox, p.path,
        [&](const Bound& b) { return files::remove(b, p.path, p.recursive, p.force, follow_of(p)); }, left);
}

Task<Outcome<std::vector<files::Entry>>> Executor::list(PathParams p)
{
    co_return co_await on_bound(
        pool_, p.sandbox,
        [&](Bound& bound) {
            auto found = as_confined(bound, p.path, [&] { return files::list(bound, p.path); });
            if (found)
                std::erase_if(*found, [&](const files::Entry& entry) {
                    return entry.directory && is_stand_in(fmt::format("{}/{}", p.path, entry.name));
                });
            return found;
        },
        {});
}

Task<Outcome<void>> Executor::copy(CopyParams p, std::stop_token left)
{
    co_return co_await on_bound(
        slow_, p.sandbox,
        [&](Bound& bound) -> Status {
            BERTH_TRY(const auto source, as_confined(bound, p.from, [&] {
                          return files::find_spot(bound, p.from, files::Follow::Yes);
                      }));
            return as_confined(bound, p.to,
                               [&] { return files::copy(bound, source, p.from, p.to, p.recursive); });
        },
        left);
}

Task<Outcome<files::WalkResult>> Executor::walk(WalkParams p, std::stop_token left)
{
    co_return co_await on_bound(
        slow_, p.sandbox,
        [&](Bound& bound) {
            auto found = as_confined(bound, p.path, [&] { return files::walk(bound, p); });
            if (found)
                std::erase_if(found->items, [&](const files::WalkResult::Item& item) {
                    return item.directory && is_stand_in(item.path);
                });
            return found;
        },
        left);
}

Task<Outcome<OpenFile>> Executor::open(OpenParams p)
{
    auto opened = co_await on_files(pool_, p.sandbox, p.path,
                                    [&](const Bound& b) { return files::open(b, p.path, p.mode); });
    if (!opened) co_return std::unexpected(std::move(opened).error());
    co_return OpenFile{.file = *std::move(opened), .read_at = {}};
}

std::shared_ptr<Watcher> Executor::watcher(boost::asio::any_io_executor loop, Fire fire)
{
    const auto shown = [this](const WatchParams& params) -> Task<bool> {
        co_return co_await pool_.call([&] { return shows(params); });
    };
    auto made = Watches::open(std::move(loop), std::move(fire), shown);
    return made ? *std::move(made) : nullptr;
}

bool Executor::is_stand_in(const std::string& path) const
{
    const auto name = std::string_view(path).substr(path.rfind('/') + 1);
    if (std::ranges::find(kProtectedNames, name) == std::end(kProtectedNames)) return false;
    return keeping::is_placeholder(state_.fd(), RealPaths{}.nearest(path));
}

/// Whether a client that looks around may know of all these: what is not shown to it neither is there nor
/// missing.
bool Executor::shows(const WatchParams& params) const
{
    auto bound = bind_files(std::nullopt);
    if (!bound) return false;
    const auto known = [&](const std::string& path, bool missing) {
        if (bound->confined && bound->decide(path) == policy::Access::Deny) return false;
        for (std::string at = path;; at.resize(std::max<std::size_t>(at.rfind('/'), 1))) {
            const auto seen =
                as_confined(*bound, at, [&] { return files::metadata(*bound, at, files::Follow::Yes); });
            if (seen) return at != path || !missing;
            if (seen.error().sys.value() != ENOENT || at == "/") return false;
        }
    };
    return std::ranges::all_of(params.missing, [&](const auto& path) { return known(path, true); }) &&
           known(params.present, false);
}

} // namespace berth::codex
