#include "server/gate/quota.hpp"

#include <boost/asio/this_coro.hpp>

#include "server/gate/face.hpp"
#include "server/gate/tenant.hpp"

namespace berth::gate {

namespace {

Result<std::size_t> count_of(Store& store, const std::string& tenant)
{
    std::size_t count = 0;
    RecordQuery query;
    for (;;) {
        BERTH_TRY(const auto page, store.list(query));
        for (const auto& record : page)
            if (owned(record.spec, tenant)) ++count;
        if (page.size() < query.limit) return count;
        query.after = page.back().id();
    }
}

} // namespace

Task<Result<Quota::Room>> Quota::take(Store& store, BlockingPool& pool, std::string tenant, std::size_t count)
{
    if (most_ == 0 || count == 0) co_return Room{};
    const auto full = [&] {
        const auto& used = tenants_[tenant];
        return used.known + used.pending + count > most_;
    };
    if (!tenants_[tenant].counted || full()) {
        BERTH_CO_TRY(const auto counted, co_await pool.call([&] { return count_of(store, tenant); }));
        tenants_[tenant].known = counted;
        tenants_[tenant].counted = true;
    }
    if (full())
        co_return fail(Code::Exhausted,
                       "this would be more than {} sandboxes, which is all you may have at once: remove some",
                       most_);
    tenants_[tenant].pending += count;
    co_return Room(this, [tenant, count](void* self) {
        auto& used = static_cast<Quota*>(self)->tenants_[tenant];
        used.pending -= count;
        used.known += count; // those that failed are found not to be there when it matters
    });
}

Task<Result<Quota::Room>> room_for(Ground& ground, std::string tenant, std::size_t count)
{
    return ground.quota.take(ground.berth.store(), ground.pool, std::move(tenant), count);
}

} // namespace berth::gate
