#include "lifecycle/move_mark.hpp"

namespace berth::move_mark {

namespace {

// A lease that nobody renews: it is there until it is given back. It names the instance, so that one which is
// left behind by a move that came through means nothing to the next generation.
constexpr const char* kMover = "a mover";
constexpr auto kLong = std::chrono::years(10);

std::string name_of(const SandboxRecord& source)
{
    return fmt::format("move:{}:{}", source.backend, source.native);
}

Result<bool> is_set(Store& store, const SandboxRecord& source)
{
    constexpr const char* asking = "whoever asks";
    BERTH_TRY(const bool was_free, store.lease(name_of(source), asking, std::chrono::milliseconds(0)));
    if (was_free) BERTH_CHECK(store.release(name_of(source), asking));
    return !was_free;
}

} // namespace

Status set(Store& store, const SandboxRecord& source)
{
    BERTH_TRY([[maybe_unused]] const bool ours, store.lease(name_of(source), kMover, kLong));
    return {};
}

Status clear(Store& store, const SandboxRecord& source) { return store.release(name_of(source), kMover); }

Task<Status> undo(Store& store, BlockingPool& pool, Backend& where, SandboxRecord record, Found& found)
{
    if (found.state != State::Paused || record.state != State::Running) co_return Status{};
    BERTH_CO_TRY(const bool moving, co_await pool.call([&] { return is_set(store, record); }));
    if (!moving) co_return Status{};
    BERTH_CO_CHECK(co_await where.resume({.sandbox = record.id(), .native = record.native}));
    found.state = State::Running;
    co_return co_await pool.call([&] { return clear(store, record); });
}

} // namespace berth::move_mark
