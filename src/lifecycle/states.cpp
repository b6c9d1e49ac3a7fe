// Stop, pause, resume, destroy: each acts on the instance found by its record, and is told in the ledger
// when the backend has confirmed it.

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "lifecycle/borrowed.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"

namespace berth {

namespace {

Status refuse_borrowed(const SandboxRecord& record, std::string_view what)
{
    if (record.state != State::Attached) return {};
    return fail(Code::Denied, "sandbox {} is borrowed: it cannot be {}, only detached (berth detach {})",
                record.id(), what, record.id());
}

Status refuse_ended(const SandboxRecord& record)
{
    if (!record.over()) return {};
    return fail(Code::NotFound, "sandbox {} is {}", record.id(), to_string(record.state));
}

} // namespace

Task<Result<SandboxRecord>> Lifecycle::stop(std::string ref, std::chrono::milliseconds grace)
{
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    BERTH_CO_CHECK(refuse_ended(held.record));
    BERTH_CO_CHECK(refuse_borrowed(held.record, "stopped"));
    // One that does not answer can be stopped all the same: nobody inside may keep it from that.
    const auto found = co_await look(held.record);
    if (!found && found.error().code != Code::Unavailable) co_return std::unexpected(found.error());
    BERTH_CO_TRY(auto record,
                 co_await follow_state(std::move(held.record), found ? found->state : State::Running));
    // What is gone runs no more: that is all that was asked for.
    if (record.state == State::Stopped || record.state == State::Lost) co_return record;
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    BERTH_CO_CHECK(co_await where->stop(handle(record), grace));
    hooks::kill_point("instance stopped");
    BERTH_CO_TRY([[maybe_unused]] const auto running, co_await settle_execs(record));
    Events told{events::stopped(record)};
    co_return co_await change(std::move(record), Transition::Stop, std::move(told));
}

Task<Result<SandboxRecord>> Lifecycle::pause(std::string ref)
{
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    BERTH_CO_CHECK(refuse_ended(held.record));
    BERTH_CO_CHECK(refuse_borrowed(held.record, "paused"));
    BERTH_CO_TRY(const auto found, co_await look(held.record));
    BERTH_CO_TRY(auto record, co_await follow_state(std::move(held.record), found.state));
    if (record.state == State::Paused) co_return record;
    if (record.state != State::Running)
        co_return fail(Code::Conflict, "sandbox {} is {}: only a running one can be paused", record.id(),
                       to_string(record.state));
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    BERTH_CO_CHECK(co_await where->pause(handle(record)));
    Events told{events::other(record, "berth.sandbox_paused")};
    co_return co_await change(std::move(record), Transition::Pause, std::move(told));
}

Task<Result<SandboxRecord>> Lifecycle::resume(std::string ref)
{
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    BERTH_CO_CHECK(refuse_ended(held.record));
    BERTH_CO_TRY(const auto found, co_await look(held.record));
    BERTH_CO_TRY(auto record, co_await follow_state(std::move(held.record), found.state));
    if (record.state == State::Attached) {
        BERTH_CO_CHECK(co_await thaw_borrowed(*this, pool_, record, found.state));
        co_return record;
    }
    if (record.state == State::Running) co_return record;
    if (record.state != State::Paused)
        co_return fail(Code::Conflict, "sandbox {} is {}, not paused: berth start {} makes it run",
                       record.id(), to_string(record.state), record.id());
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    BERTH_CO_CHECK(co_await where->resume(handle(record)));
    Events told{events::other(record, "berth.sandbox_resumed")};
    co_return co_await change(std::move(record), Transition::Resume, std::move(told));
}

/// Volumes stay: they belong to the key, and only `berth volume rm` removes one.
Task<Result<SandboxRecord>> Lifecycle::remove(SandboxRecord record, std::string why)
{
    if (record.state == State::Destroyed || record.state == State::Detached) co_return record;
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    // One that was being adopted is not ours yet, and has somebody's work in it.
    if (record.state == State::Creating) BERTH_CO_CHECK(co_await where->release(handle(record)));
    // What the kernel told of its commands is told before it goes; what still runs ends now.
    if (record.state != State::Creating) (void)co_await settle_execs(record);
    BERTH_CO_CHECK(co_await where->destroy(handle(record)));
    hooks::kill_point("instance destroyed");
    BERTH_CO_TRY(const auto running, co_await stored([&](Store& s) { return s.execs(record.id(), true); }));
    for (auto exec : running) {
        exec.ended = clock_.now();
        exec.outcome = "unknown";
        BERTH_CO_CHECK(
            co_await stored([&](Store& s) { return s.end_exec(exec, {events::exec_ended(exec)}); }));
    }
    Events told{events::other(record, "berth.sandbox_destroyed", why)};
    co_return co_await change(std::move(record), Transition::Destroy, std::move(told));
}

/// Nobody can use it any more, but its instance must not stay for ever.
Task<Result<std::optional<SandboxRecord>>> Lifecycle::remove_damaged(std::string ref)
{
    BERTH_CO_TRY(auto some,
                 co_await stored([&](Store& s) { return s.list({.id_prefix = ref, .limit = 2}); }));
    if (some.size() != 1 || some[0].damage.empty()) co_return std::optional<SandboxRecord>{};
    auto& record = some[0];
    BERTH_CO_CHECK(refuse_borrowed(record, "destroyed"));
    BERTH_CO_TRY(const auto held, co_await lock(record.key.empty() ? record.id() : "key:" + record.key));
    BERTH_CO_TRY(auto gone, co_await remove(std::move(record), "asked; its record was damaged"));
    co_return gone;
}

Task<Result<SandboxRecord>> Lifecycle::destroy(std::string ref)
{
    if (is_id(ref, "sbx_")) {
        BERTH_CO_TRY(auto removed, co_await remove_damaged(ref));
        if (removed) co_return *std::move(removed);
    }
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    BERTH_CO_CHECK(refuse_borrowed(held.record, "destroyed"));
    co_return co_await remove(std::move(held.record), "asked");
}

Task<Status> Lifecycle::keep_alive(std::string ref)
{
    BERTH_CO_TRY(auto record, co_await find(ref));
    BERTH_CO_CHECK(refuse_ended(record));
    if (record.retention.idle) {
        BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
        BERTH_CO_CHECK(co_await where->keep_alive(handle(record), *record.retention.idle));
    }
    const auto now = clock_.now();
    co_return co_await stored([&](Store& store) { return store.touch(record.id(), now); });
}

Task<Result<Acquired>> Lifecycle::attach(std::string name_of_backend, std::string native, std::string name)
{
    BERTH_CO_TRY(const auto name_held, co_await new_names(name, {name}));
    BERTH_CO_TRY(auto* const where, co_await backend(name_of_backend));
    BERTH_CO_TRY(const auto borrowed, co_await where->attach(native));
    const std::string key = borrowed_key(name_of_backend, borrowed.native);
    BERTH_CO_TRY(const auto held, co_await lock("key:" + key));
    BERTH_CO_TRY(auto known, co_await stored([&](Store& store) { return store.find_key(key); }));
    auto* const tells = dynamic_cast<TellsBorrowed*>(where);
    std::optional<Borrowed> is;
    if (tells != nullptr) {
        BERTH_CO_TRY(is, co_await tells->borrowed(borrowed));
    }
    if (known) {
        SandboxRecord now = *known;
        if (is) describe_borrowed(now, *is);
        if (now == *known) co_return Acquired{.record = std::move(now), .tier = Tier::Attached};
        BERTH_CO_TRY(now, co_await stored([&](Store& store) { return store.update(now, {}); }));
        co_return Acquired{.record = std::move(now), .tier = Tier::Attached};
    }
    // Let go before, and borrowed again: the same sandbox.
    BERTH_CO_TRY(auto before, co_await stored([&](Store& store) { return store.find(borrowed.sandbox); }));
    if (before && before->state == State::Detached) {
        if (!name.empty()) before->spec.name = name;
        if (is) describe_borrowed(*before, *is);
        Events again{events::attached(*before)};
        BERTH_CO_TRY(auto record, co_await change(*std::move(before), Transition::Attach, std::move(again)));
        co_return Acquired{.record = std::move(record), .tier = Tier::Attached};
    }
    SandboxRecord record;
    record.spec.id = borrowed.sandbox;
    record.spec.name = name;
    record.key = key;
    record.backend = name_of_backend;
    record.native = borrowed.native;
    record.state = State::Attached;
    if (is) describe_borrowed(record, *is);
    record.created = record.changed = record.last_used = clock_.now();
    Events told{events::attached(record)};
    BERTH_CO_TRY(record, co_await stored([&](Store& store) { return store.insert(record, told); }));
    co_return Acquired{.record = std::move(record), .tier = Tier::Attached};
}

Task<Result<SandboxRecord>> Lifecycle::detach(std::string ref)
{
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    if (held.record.state == State::Detached) co_return held.record;
    if (held.record.state != State::Attached &&
        !(held.record.state == State::Lost && is_borrowed(held.record)))
        co_return fail(Code::Conflict, "sandbox {} is our own, not borrowed: berth stop or berth rm ends it",
                       held.record.id());
    BERTH_CO_TRY(auto* const where, co_await backend(held.record.backend));
    BERTH_CO_CHECK(co_await where->release(handle(held.record)));
    hooks::kill_point("instance released");
    Events told{events::detached(held.record)};
    co_return co_await change(std::move(held.record), Transition::Detach, std::move(told));
}

} // namespace berth
