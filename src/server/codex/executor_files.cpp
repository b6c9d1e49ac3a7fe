// fs/* of this host: the decision of the intent, then the operation with the rights that it has.
#include "server/codex/executor.hpp"
#include "server/codex/host_files.hpp"
#include "server/codex/watches.hpp"

namespace berth::codex {

namespace {

files::Follow follow_of(const PathParams& params)
{
    return params.follow ? files::Follow::Yes : files::Follow::No;
}

} // namespace

template <class F>
auto Executor::on_files(const std::optional<Intent>& intent, const std::string& path, F work)
    -> Task<Outcome<typename std::invoke_result_t<F, const Bound&>::value_type>>
{
    using Done = std::invoke_result_t<F, const Bound&>;
    co_return co_await pool_.call([&]() -> Outcome<typename Done::value_type> {
        auto bound = bind_files(intent);
        if (!bound) return refuse(-32602, bound.error().line());
        auto done = as_confined(*bound, path, [&]() -> Done { return work(*bound); });
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
    co_return co_await on_files(p.sandbox, p.path,
                                [&](const Bound& b) { return files::metadata(b, p.path, follow_of(p)); });
}

Task<Outcome<std::string>> Executor::canonical(PathParams p)
{
    co_return co_await on_files(p.sandbox, p.path,
                                [&](const Bound& b) { return files::canonical(b, p.path); });
}

Task<Outcome<std::string>> Executor::read(PathParams p)
{
    co_return co_await on_files(p.sandbox, p.path,
                                [&](const Bound& b) { return files::read(b, p.path, follow_of(p)); });
}

Task<Outcome<void>> Executor::write(WriteFileParams p)
{
    co_return co_await on_files(
        p.sandbox, p.path, [&](const Bound& b) { return files::write(b, p.path, p.bytes, follow_of(p)); });
}

Task<Outcome<void>> Executor::make_directory(PathParams p)
{
    co_return co_await on_files(p.sandbox, p.path, [&](const Bound& b) {
        return files::make_directory(b, p.path, p.recursive, follow_of(p));
    });
}

Task<Outcome<void>> Executor::remove(PathParams p)
{
    co_return co_await on_files(p.sandbox, p.path, [&](const Bound& b) {
        return files::remove(b, p.path, p.recursive, p.force, follow_of(p));
    });
}

Task<Outcome<std::vector<files::Entry>>> Executor::list(PathParams p)
{
    co_return co_await on_files(p.sandbox, p.path, [&](const Bound& b) { return files::list(b, p.path); });
}

Task<Outcome<void>> Executor::copy(CopyParams p)
{
    co_return co_await on_files(p.sandbox, p.to,
                                [&](const Bound& b) { return files::copy(b, p.from, p.to, p.recursive); });
}

Task<Outcome<files::WalkResult>> Executor::walk(WalkParams p)
{
    co_return co_await on_files(p.sandbox, p.path, [&](const Bound& b) { return files::walk(b, p); });
}

Task<Outcome<UniqueFd>> Executor::open(OpenParams p)
{
    co_return co_await on_files(p.sandbox, p.path,
                                [&](const Bound& b) { return files::open(b, p.path, p.mode); });
}

std::shared_ptr<Watcher> Executor::watcher(boost::asio::any_io_executor loop, Fire fire)
{
    auto made = Watches::open(std::move(loop), std::move(fire));
    return made ? *std::move(made) : nullptr;
}

} // namespace berth::codex
