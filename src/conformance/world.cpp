#include "conformance/world.hpp"

#include <algorithm>

#include "conformance/forwarding.hpp"
#include "store/sqlite/sqlite_store.hpp"

namespace berth::conformance {

Result<std::unique_ptr<World>> World::make(Context& c)
{
    std::unique_ptr<World> world(new World(c));
    BERTH_TRY(world->data_, c.place().scratch());
    BERTH_TRY([[maybe_unused]] const auto* first, world->process());
    return world;
}

World::~World()
{
    *outage = false;
    if (c.place().stuck()) {
        for (auto& process : processes_) (void)process.release();
        return;
    }
    if (processes_.empty()) return;
    const auto records = processes_.front()->store->list({.with_dead = true, .limit = 10'000});
    if (!records) return;
    for (const auto& record : *records) c.place().remember(record.id());
    const auto all = c.await(c.backend().scan());
    if (!all) return;
    for (const auto& found : *all)
        if (std::ranges::any_of(*records, [&](const auto& r) { return r.id() == found.sandbox.sandbox; }))
            (void)c.await(c.backend().destroy(found.sandbox));
}

Result<Process*> World::process()
{
    auto made = std::make_unique<Process>();
    BERTH_TRY(made->store, store::SqliteStore::open(data_ + "/store.db", clock));
    made->registry = std::make_unique<BackendRegistry>();
    const auto& place = c.place();
    made->registry->add(
        place.options().backend,
        [&place, out = outage](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
            BERTH_TRY(auto real, place.registry().open(place.options().backend, options));
            return forwarding(std::move(real), out);
        });
    auto& pool = c.place().pool();
    made->backends = std::make_unique<Backends>(*made->registry,
                                                BackendOptions{.state_path = place.state(), .pool = &pool});
    made->lifecycle = std::make_unique<Lifecycle>(*made->store, *made->backends, pool, data_, clock);
    processes_.push_back(std::move(made));
    return processes_.back().get();
}

AcquireRequest World::request(std::string key) const
{
    AcquireRequest out;
    out.spec = c.spec();
    out.spec.id.clear();
    out.key = std::move(key);
    out.backend = c.place().options().backend;
    return out;
}

Result<Acquired> World::acquire(std::string key)
{
    return step("acquiring " + key, c.await(life().acquire(request(key))));
}

Result<std::size_t> World::told(const std::string& type, const std::string& sandbox)
{
    BERTH_TRY(const auto events, processes_.front()->store->ledger({.sandbox = sandbox, .type = type}));
    return events.size();
}

Status World::lose(const Acquired& acquired)
{
    return step("losing an instance", c.await(c.backend().destroy(handle(acquired))));
}

Result<std::vector<GcAction>> World::collect(GcWish wish)
{
    BERTH_TRY(auto report, step("collecting", c.await(life().collect(wish))));
    for (const auto& action : report.actions)
        BERTH_CHECK(expect(action.failed.empty(), "collecting could not {} {}: {}", action.what,
                           action.object, action.failed));
    return std::move(report.actions);
}

Status came_by(const Acquired& acquired, Tier want)
{
    return expect(acquired.tier == want, "it was {}, not {}", to_string(acquired.tier), to_string(want));
}

Status in_state(World& world, const std::string& ref, State want)
{
    BERTH_TRY(const auto record, world.c.await(world.life().refresh(ref)));
    return expect(record.state == want, "its state is {}, not {}", to_string(record.state), to_string(want));
}

} // namespace berth::conformance
