#include "lifecycle/borrowed.hpp"

#include "lifecycle/events.hpp"

namespace berth {

Task<Status> thaw_borrowed(Lifecycle& lifecycle, BlockingPool& pool, SandboxRecord record, State seen)
{
    if (seen == State::Running) co_return Status{};
    if (seen != State::Paused)
        co_return fail(Code::Conflict, "sandbox {} is borrowed and {}: it is its owner's to start",
                       record.id(), to_string(seen));
    BERTH_CO_TRY(auto* const where, co_await lifecycle.backend(record.backend));
    BERTH_CO_CHECK(co_await where->resume(Lifecycle::handle(record)));
    BERTH_CO_TRY([[maybe_unused]] const auto told, co_await pool.call([&] {
        return lifecycle.store().append({events::other(record, "berth.sandbox_resumed")});
    }));
    co_return Status{};
}

} // namespace berth
