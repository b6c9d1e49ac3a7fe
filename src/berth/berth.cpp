#include "berth/berth.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "backend/local/state_dir.hpp"
#include "backend/registry.hpp"
#include "base/ids.hpp"
#include "berth/ballast.hpp"
#include "store/sqlite/sqlite_store.hpp"

namespace berth {

/// In this order: what is below is used by what is above, and goes later.
struct Berth::Parts {
    std::string data;
    boost::asio::io_context loop{1};
    std::unique_ptr<store::SqliteStore> store;
    BlockingPool pool;
    Backends backends;
    Lifecycle lifecycle;

    Parts(std::string where, std::unique_ptr<store::SqliteStore> kept, std::size_t threads,
          const Clock& clock)
        : data(std::move(where)), store(std::move(kept)), pool(threads),
          backends(berth::backends(), {.state_path = data, .pool = &pool}),
          lifecycle(*store, backends, pool, data, clock)
    {
    }
};

Result<std::string> default_data() { return local::default_state_path(); }

Result<std::unique_ptr<Berth>> Berth::open(BerthOptions options)
{
    if (options.data.empty()) {
        BERTH_TRY(options.data, default_data());
    }
    // Makes what is missing, and refuses a directory that others may enter.
    BERTH_TRY([[maybe_unused]] const auto state, local::StateDir::open(options.data));
    const Clock& clock = options.clock != nullptr ? *options.clock : system_clock();
    const Ballast ballast(options.data);
    if (options.room == Room::Frees && ballast.short_of_room()) ballast.release();
    const std::string file = options.data + "/store.db";
    auto opened = store::SqliteStore::open(file, clock);
    if (!opened && opened.error().code == Code::Exhausted && options.room == Room::Reads)
        opened = store::SqliteStore::open_to_read(file, clock);
    if (!opened) return std::unexpected(std::move(opened).error());
    ballast.refill();
    auto kept = *std::move(opened);
    return std::unique_ptr<Berth>(
        new Berth(std::make_unique<Parts>(options.data, std::move(kept), options.threads, clock)));
}

Berth::Berth(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Berth::~Berth() { Ballast(parts_->data).refill(); }

Lifecycle& Berth::lifecycle() noexcept { return parts_->lifecycle; }
Store& Berth::store() noexcept { return *parts_->store; }
const std::string& Berth::data() const noexcept { return parts_->data; }
Result<Backend*> Berth::backend(const std::string& name) { return parts_->backends.get(name); }

Task<Result<RunOutcome>> Berth::exec(std::string ref, ExecSpec spec, RunStreams streams)
{
    if (spec.id.empty()) spec.id = make_exec_id(system_clock());
    BERTH_CO_TRY(const auto used, co_await lifecycle().use(std::move(ref)));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(used.record.backend));
    BERTH_CO_CHECK(co_await lifecycle().exec(used.record, spec));
    BERTH_CO_TRY(auto outcome,
                 co_await where->follow(Lifecycle::handle(used.record), spec, std::move(streams)));
    BERTH_CO_CHECK(co_await lifecycle().finish_exec(used.record, spec.id, outcome.status, outcome.timed_out));
    for (const auto& note : used.notes) outcome.notes.push_back(note);
    co_return outcome;
}

void Berth::run_to_end(Task<void> task)
{
    boost::asio::co_spawn(parts_->loop, std::move(task), [](const std::exception_ptr& thrown) {
        if (thrown) std::rethrow_exception(thrown);
    });
    parts_->loop.restart();
    parts_->loop.run();
}

} // namespace berth
