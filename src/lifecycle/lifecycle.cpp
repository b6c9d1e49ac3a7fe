#include "lifecycle/lifecycle.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "lifecycle/borrowed.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/move_mark.hpp"
#include "lifecycle/stored.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr auto kLockPatience = 120s; // a first template is made while others wait

std::string lock_name(const SandboxRecord& record)
{
    return record.key.empty() ? record.id() : "key:" + record.key;
}

std::string describe(const SandboxRecord& record)
{
    return record.spec.name.empty() ? record.id() : fmt::format("{} ({})", record.spec.name, record.id());
}

/// The newest of several, or none.
std::optional<SandboxRecord> last_of(std::vector<SandboxRecord> records)
{
    if (records.empty()) return std::nullopt;
    return std::move(records.back());
}

Result<std::optional<SandboxRecord>> find_in(Store& store, const std::string& ref)
{
    if (is_id(ref, "sbx_")) return store.find(ref);
    BERTH_TRY(auto named, store.list({.name = ref, .limit = 1000}));
    if (ref.empty()) named.clear();
    BERTH_TRY(auto keyed, store.find_key(ref));
    if (!named.empty() && keyed && keyed->id() != named.back().id())
        return fail(Code::Conflict, "'{}' is the name of {} and the key of {}: use an id", printable(ref, 60),
                    named.back().id(), keyed->id());
    if (!named.empty()) return last_of(std::move(named));
    if (keyed) return keyed;
    const std::string prefix = ref.starts_with("sbx_") ? ref : "sbx_" + ref;
    if (prefix.size() < 6) return std::optional<SandboxRecord>{};
    BERTH_TRY(auto some, store.list({.id_prefix = prefix, .limit = 3}));
    if (some.size() > 1)
        return fail(Code::Conflict, "'{}' stands for several sandboxes: {}, {}{}", printable(ref, 60),
                    some[0].id(), some[1].id(), some.size() > 2 ? ", …" : "");
    return last_of(std::move(some));
}

constexpr const char* kSeen = "berth.sandbox_state_seen";

/// How a borrowed one was when that was last told; it ran when it was borrowed.
Result<std::string> last_seen(Store& store, const std::string& sandbox)
{
    std::string out(to_string(State::Running));
    LedgerQuery query{.sandbox = sandbox, .type = kSeen};
    for (;;) {
        BERTH_TRY(const auto page, store.ledger(query));
        if (!page.empty() && page.back().data.contains("reason"))
            out = json::Reader(page.back().data.at("reason")).string().value_or(out);
        if (page.size() < query.limit) return out;
        query.after = page.back().sequence;
    }
}

/// A borrowed one stays borrowed, whatever its owner does with it; that he did is told, once each time.
Status note_seen(Store& store, const SandboxRecord& record, State seen)
{
    BERTH_TRY(const auto before, last_seen(store, record.id()));
    if (before == to_string(seen)) return {};
    BERTH_TRY([[maybe_unused]] const auto sequence,
              store.append({events::other(record, kSeen, to_string(seen))}));
    return {};
}

} // namespace

Lifecycle::Lifecycle(Store& store, Backends& backends, BlockingPool& pool, std::string data,
                     const Clock& clock)
    : store_(store), backends_(backends), pool_(pool), data_(std::move(data)), clock_(clock)
{
}

SandboxHandle Lifecycle::handle(const SandboxRecord& record)
{
    return {.sandbox = record.id(), .native = record.native};
}

Task<Result<Backend*>> Lifecycle::backend(std::string name)
{
    if (auto* const opened = backends_.opened(name)) co_return opened;
    co_return co_await pool_.call([&] { return backends_.get(name); });
}

Task<Result<KeyLock>> Lifecycle::lock(std::string name)
{
    co_return co_await KeyLock::take(data_ + "/lock", std::move(name), kLockPatience);
}

Task<Result<SandboxRecord>> Lifecycle::find(std::string ref)
{
    BERTH_CO_TRY(auto found, co_await stored([&](Store& store) { return find_in(store, ref); }));
    if (!found) co_return fail(Code::NotFound, "no sandbox '{}': berth ls lists them", printable(ref, 80));
    if (!found->damage.empty()) co_return fail(Code::Internal, "{}", found->damage);
    co_return *std::move(found);
}

/// What was found is read again under its lock: it may have changed while we waited for it.
Task<Result<Lifecycle::Locked>> Lifecycle::find_locked(std::string ref)
{
    BERTH_CO_TRY(auto found, co_await find(ref));
    BERTH_CO_TRY(auto held, co_await lock(lock_name(found)));
    BERTH_CO_TRY(auto again, co_await stored([&](Store& store) { return store.find(found.id()); }));
    if (!again) co_return fail(Code::NotFound, "no sandbox {}", found.id());
    co_return Locked{.lock = std::move(held), .record = *std::move(again)};
}

Result<SandboxRecord> Lifecycle::advance(SandboxRecord record, Transition transition) const
{
    const auto to = next(record.state, transition);
    if (!to) return fail(Code::Conflict, "sandbox {} is {}", describe(record), to_string(record.state));
    record.state = *to;
    record.changed = clock_.now();
    record.due = record.deadline();
    return record;
}

Task<Result<SandboxRecord>> Lifecycle::change(SandboxRecord record, Transition transition, Events events)
{
    BERTH_CO_TRY(record, advance(std::move(record), transition));
    co_return co_await stored([&](Store& store) { return store.update(record, events); });
}

/// Only the backend's own word that it is gone counts; silence is asked again and then an error.
Task<Result<Found>> Lifecycle::look(SandboxRecord record)
{
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    for (const auto pause : {250ms, 1000ms, 3000ms, 0ms}) {
        BERTH_CO_TRY(auto found, co_await where->inspect(handle(record)));
        if (found.health != Health::Unresponsive) {
            BERTH_CO_CHECK(co_await move_mark::undo(store_, pool_, *where, record, found));
            co_return found;
        }
        if (pause == 0ms) break;
        timer.expires_after(pause);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
    co_return fail(Code::Unavailable, "sandbox {} does not answer: it is left as it is, try again",
                   describe(record));
}

/// The backend's word is true: a machine may have gone down, somebody may have stopped or thawed it.
Task<Result<SandboxRecord>> Lifecycle::follow_state(SandboxRecord record, State seen)
{
    if (record.state == seen) co_return record;
    if (record.state == State::Attached && seen != State::Lost) {
        BERTH_CO_CHECK(co_await stored([&](Store& store) { return note_seen(store, record, seen); }));
        co_return record;
    }
    const auto step = [&]() -> std::optional<Transition> {
        // Its owner's again and still: it was only out of sight.
        if (record.state == State::Lost && is_borrowed(record)) return Transition::Attach;
        switch (seen) {
        case State::Stopped: return record.state == State::Paused ? Transition::Reboot : Transition::Stop;
        case State::Paused: return Transition::Pause;
        case State::Running: return record.state == State::Paused ? Transition::Resume : Transition::Start;
        case State::Lost: return Transition::Missing;
        default: return std::nullopt;
        }
    }();
    if (!step || !next(record.state, *step)) co_return record;
    Events told;
    told.push_back(events::other(record, kSeen, to_string(seen)));
    if (seen == State::Lost)
        told.push_back(events::other(record, events::kLost, "the backend says it is gone"));
    co_return co_await change(std::move(record), *step, std::move(told));
}

Task<Result<SandboxRecord>> Lifecycle::refresh(std::string ref)
{
    BERTH_CO_TRY(auto record, co_await find(ref));
    if (!record.live() || record.state == State::Creating) co_return record;
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    BERTH_CO_TRY(const auto found, co_await where->inspect(handle(record)));
    if (found.health == Health::Unresponsive || found.state == record.state) co_return record;
    if (record.state == State::Attached) {
        const auto last = [&](Store& store) { return last_seen(store, record.id()); };
        BERTH_CO_TRY(const auto before, co_await stored(last));
        if (before == to_string(found.state)) co_return record;
    }
    // Somebody may be at work on it: his word comes later, and is the better one.
    BERTH_CO_TRY(const auto held, KeyLock::try_take(data_ + "/lock", lock_name(record)));
    if (!held) co_return record;
    BERTH_CO_TRY(auto again, co_await stored([&](Store& store) { return store.find(record.id()); }));
    if (!again || !again->live() || again->version != record.version) co_return again ? *again : record;
    BERTH_CO_TRY(auto seen, co_await where->inspect(handle(*again)));
    if (seen.health == Health::Unresponsive) co_return *again;
    BERTH_CO_CHECK(co_await move_mark::undo(store_, pool_, *where, *again, seen));
    co_return co_await follow_state(*again, seen.state);
}

} // namespace berth
