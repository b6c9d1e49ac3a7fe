// The three tiers. What loses state is never silent: it is in the answer and in the ledger.

#include <algorithm>

#include "base/brief.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/shell_quoted.hpp"
#include "base/strings.hpp"
#include "lifecycle/borrowed.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"
#include "lifecycle/tar_snapshot.hpp"

namespace berth {

Task<Result<std::optional<Acquired>>> Lifecycle::resume_tiers(SandboxRecord record, OnStateLoss on_loss)
{
    if (record.state == State::Failed || record.state == State::Destroyed || record.state == State::Detached)
        co_return fail(Code::NotFound, "sandbox {} is {}{}{}", record.id(), to_string(record.state),
                       record.failure.empty() ? "" : ": ", record.failure);
    if (record.state == State::Creating) {
        BERTH_CO_TRY(auto made, co_await finish_creating(std::move(record)));
        const bool restored = !made.latest_snapshot.empty();
        co_return Acquired{.record = made,
                           .tier = restored ? Tier::Restored : Tier::Fresh,
                           .snapshot = made.latest_snapshot};
    }
    BERTH_CO_TRY(const auto found, co_await look(record));
    if (found.health == Health::Gone)
        co_return co_await recover(std::move(record), on_loss, "the backend says it is gone");
    if (record.state == State::Lost && is_borrowed(record)) {
        BERTH_CO_TRY(record, co_await follow_state(std::move(record), found.state));
    }
    if (record.state == State::Attached) {
        const bool paused = found.state == State::Paused;
        BERTH_CO_CHECK(co_await thaw_borrowed(*this, pool_, record, found.state));
        co_return Acquired{.record = co_await note_use(std::move(record)),
                           .tier = paused ? Tier::Started : Tier::Attached};
    }

    const bool was_paused = record.state == State::Paused;
    BERTH_CO_TRY(record, co_await follow_state(std::move(record), found.state));
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    if (found.state == State::Running)
        co_return Acquired{.record = co_await note_use(std::move(record)), .tier = Tier::Attached};
    Acquired answer{.tier = Tier::Started};
    if (found.state == State::Paused) {
        BERTH_CO_CHECK(co_await where->resume(handle(record)));
        Events told{events::other(record, "berth.sandbox_resumed")};
        BERTH_CO_TRY(answer.record, co_await change(std::move(record), Transition::Resume, std::move(told)));
        co_return answer;
    }
    const auto& idle = record.retention.idle;
    if (idle && record.retention.on_idle == OnIdle::Destroy && clock_.now() >= record.last_used + *idle) {
        BERTH_CO_CHECK(co_await where->destroy(handle(record)));
        co_return co_await recover(std::move(record), on_loss, "its idle time was over");
    }
    BERTH_CO_TRY(auto started, co_await where->start(handle(record)));
    hooks::kill_point("instance started");
    BERTH_CO_TRY([[maybe_unused]] const auto running, co_await settle_execs(record));
    answer.unsynced_since = started.unsynced_since;
    answer.notes = std::move(started.notes);
    if (was_paused) answer.notes.emplace_back("it was paused, and the machine went down: its memory is gone");
    record.last_used = clock_.now();
    Events told{events::started(record)};
    BERTH_CO_TRY(answer.record, co_await change(std::move(record), Transition::Start, std::move(told)));
    co_return answer;
}

/// Tier two, for an instance that is gone. Nothing: there never was a snapshot, or none could be restored and
/// that is as good as none (`failure` of the record says why then).
Task<Result<std::optional<Acquired>>> Lifecycle::recover(SandboxRecord record, OnStateLoss on_loss,
                                                         std::string why)
{
    if (record.state != State::Lost) {
        Events told{events::other(record, events::kLost, why)};
        BERTH_CO_TRY(record, co_await change(std::move(record), Transition::Missing, std::move(told)));
    }
    if (on_loss == OnStateLoss::Error)
        co_return fail(Code::NotFound, "sandbox {} is lost: {}", record.id(), why);
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    const auto accepted = restored_by(where->capabilities());
    BERTH_CO_TRY(auto all, co_await stored([&](Store& store) { return store.snapshots(record.id()); }));
    std::erase_if(all, [](const SnapshotRecord& one) { return one.internal; });
    if (all.empty()) co_return std::optional<Acquired>{};
    const std::string newest = all.front().kind;
    std::erase_if(all, [&](const SnapshotRecord& one) {
        return std::ranges::find(accepted, one.kind) == accepted.end();
    });
    // Who went back to an older one does not want what came after it.
    if (const auto at = std::ranges::find(all, record.latest_snapshot, &SnapshotRecord::id); at != all.end())
        std::rotate(all.begin(), at, at + 1);

    Error refused{.code = Code::Unsupported,
                  .message = fmt::format("sandbox {} is lost and backend {} restores none of its snapshots: "
                                         "it takes {}, the newest is {}",
                                         record.id(), record.backend, fmt::join(accepted, ", "), newest)};
    std::vector<std::string> notes;
    for (auto one = all.begin(); one != all.end(); ++one) {
        auto restored = co_await replace_instance(record, *one, why);
        if (restored)
            co_return co_await restored_from(*std::move(restored), record, all, *one, std::move(notes), why);
        auto error = std::move(restored).error();
        if (on_loss != OnStateLoss::Fresh) {
            if (one + 1 != all.end())
                error.message += fmt::format(" (older: berth restore {})", (one + 1)->id);
            co_return std::unexpected(std::move(error));
        }
        notes.push_back(fmt::format("{} could not be restored: {}", one->id, error.line()));
        refused = std::move(error);
    }
    if (on_loss != OnStateLoss::Fresh) co_return std::unexpected(std::move(refused));
    record.failure = notes.empty() ? refused.message : fmt::format("{}", fmt::join(notes, "; "));
    Events told{events::other(record, "berth.sandbox_restore_failed", record.failure)};
    BERTH_CO_TRY(record, co_await stored([&](Store& store) { return store.update(record, told); }));
    co_return std::optional<Acquired>{};
}

/// What came back, and what did not.
Task<Result<Acquired>> Lifecycle::restored_from(SandboxRecord now, SandboxRecord before,
                                                std::vector<SnapshotRecord> all, SnapshotRecord used,
                                                std::vector<std::string> notes, std::string why)
{
    Acquired answer{
        .record = std::move(now), .tier = Tier::Restored, .snapshot = used.id, .notes = std::move(notes)};
    answer.lost = std::max<std::chrono::nanoseconds>(before.last_used - used.created, {});
    answer.notes.push_back(fmt::format("made anew from {}: {}; what happened in the {} after it is lost",
                                       used.id, why, brief(*answer.lost)));
    if (used.kind != snapshot_kind::kWorkspaceTar) co_return answer;
    BERTH_CO_TRY(auto* const where, co_await backend(answer.record.backend));
    BERTH_CO_TRY(const auto tree,
                 co_await tar_snapshot::workspace_of(*where, handle(answer.record), answer.record.spec));
    answer.notes.push_back(fmt::format("{} holds {} alone: what lay elsewhere is lost", used.id, tree));
    const auto whole =
        std::ranges::find_if(all, [](const auto& one) { return one.kind != snapshot_kind::kWorkspaceTar; });
    if (whole != all.end())
        answer.notes.push_back(fmt::format("{}, of {} before, holds everything: berth restore {}", whole->id,
                                           brief(used.created - whole->created), whole->id));
    co_return answer;
}

/// Make before break: the next generation stands before the record names it, and only then the one
/// before goes. After a crash between the two, reconciling removes whichever the record does not name.
Task<Result<SandboxRecord>> Lifecycle::replace_instance(SandboxRecord record, SnapshotRecord snapshot,
                                                        std::string why)
{
    BERTH_CO_TRY(auto source, co_await source_of(snapshot, record.backend));
    const SandboxHandle before = handle(record);
    SandboxRecord next = record;
    ++next.generation;
    next.latest_snapshot = snapshot.id; // what the next one of it is a child of
    next.failure.clear();
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    // One of a crashed try may be in the way.
    BERTH_CO_CHECK(co_await where->destroy(
        {.sandbox = record.id(), .native = fmt::format("{}.{}", record.id(), next.generation)}));
    BERTH_CO_TRY(next, co_await make_instance(std::move(next), std::move(source)));
    hooks::kill_point("next generation made");
    next.last_used = clock_.now();
    Events told{events::started(next, snapshot.id), events::other(next, "berth.sandbox_recovered", why)};
    told.back().data["tier"] = "restored";
    told.back().data["snapshot_id"] = snapshot.id;
    const State from = next.state;
    if (from == State::Lost) {
        BERTH_CO_TRY(next, co_await change(std::move(next), Transition::Restored, std::move(told)));
    } else {
        next.state = State::Running;
        next.changed = clock_.now();
        next.due = next.deadline();
        BERTH_CO_TRY(next, co_await stored([&](Store& store) { return store.update(next, told); }));
    }
    hooks::kill_point("next generation recorded");
    if (before.native == next.native) co_return next;
    // What the kernel told of its commands is told before it goes.
    SandboxRecord old = next;
    old.native = before.native;
    old.generation = record.generation;
    (void)co_await settle_execs(std::move(old));
    BERTH_CO_CHECK(co_await where->destroy(before));
    co_return next;
}

Task<Result<std::optional<Acquired>>> Lifecycle::try_resume(std::string key)
{
    BERTH_CO_TRY(const auto held, co_await lock("key:" + key));
    BERTH_CO_TRY(auto known, co_await stored([&](Store& store) { return store.find_key(key); }));
    if (!known) co_return std::optional<Acquired>{};
    co_return co_await resume_tiers(*std::move(known), OnStateLoss::Restore);
}

Task<Result<Acquired>> Lifecycle::use(std::string ref)
{
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    const std::string id = held.record.id(), key = held.record.key;
    BERTH_CO_TRY(auto resumed, co_await resume_tiers(std::move(held.record), OnStateLoss::Restore));
    if (!resumed)
        co_return fail(
            Code::NotFound,
            "sandbox {} is lost and has no snapshot: its work cannot be had back; {}berth rm {} removes it",
            id, key.empty() ? "" : fmt::format("berth create --key {} makes a new one, ", shell_quoted(key)),
            id);
    co_return *std::move(resumed);
}

} // namespace berth
