// What time and crashes leave behind. Everything is looked at again under its lock before it is touched;
// what somebody works on, and what is not ours, is left alone.

#include <algorithm>
#include <map>
#include <set>

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "lifecycle/client.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/move_mark.hpp"
#include "lifecycle/payload.hpp"
#include "lifecycle/snapshot_keeping.hpp"
#include "lifecycle/stored.hpp"
#include "lifecycle/template_note.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPage = 500;

std::string lock_name(const SandboxRecord& record)
{
    return record.key.empty() ? record.id() : "key:" + record.key;
}

void note(GcReport& report, std::string what, std::string object, std::string why, const Status& done = {})
{
    report.actions.push_back({.what = std::move(what),
                              .object = std::move(object),
                              .why = std::move(why),
                              .failed = done ? std::string{} : done.error().line()});
}

bool over(const GcWish& wish) { return wish.over != nullptr && *wish.over; }

/// Nobody waits any more for what runs in a sandbox that was to be thrown away.
bool deserted(const SandboxRecord& record, const std::string& data)
{
    if (!record.spec.labels.contains(std::string(kClientLabel))) return false;
    const auto client = take_client(data, record.id());
    return client && *client;
}

bool past_grace(const SandboxRecord& superseded, const GcWish& wish, WallTime now)
{
    return now >= std::max(superseded.changed, superseded.last_used) + wish.grace;
}

template <class T> Status status_of(const Result<T>& result)
{
    if (result) return {};
    return std::unexpected(result.error());
}

} // namespace

/// One whose deadline has passed. A clock that stepped back has passed nothing.
Task<Status> Lifecycle::collect_one(SandboxRecord record, GcWish wish, GcReport& report)
{
    const auto now = clock_.now();
    const auto& keep = record.retention;
    if (keep.lifetime && now >= record.created + *keep.lifetime) {
        Status done;
        if (!wish.dry_run) done = status_of(co_await remove(record, "its lifetime is over"));
        note(report, "destroy", record.id(), "its lifetime of " + show(*keep.lifetime) + " is over", done);
        co_return Status{};
    }
    const bool in_use = record.state == State::Running || record.state == State::Paused;
    if (!keep.idle || now < record.last_used + *keep.idle) co_return Status{};
    if (!in_use && keep.on_idle != OnIdle::Destroy) co_return Status{};
    if (in_use && wish.dry_run) {
        // A command whose end nobody recorded runs, or its end is recorded now, which is use: it stays.
        BERTH_CO_TRY(const auto open,
                     co_await stored([&](Store& store) { return store.execs(record.id(), true); }));
        if (!open.empty()) co_return Status{};
    } else if (in_use) {
        const auto running = co_await settle_execs(record);
        if (!running || (!running->empty() && !deserted(record, data_))) {
            // Pinned by what runs in it, or not to be asked now: not idle.
            co_return co_await stored([&](Store& store) { return store.touch(record.id(), now); });
        }
        // It may have been used a moment ago: an exec that has just ended says when.
        BERTH_CO_TRY(auto again, co_await stored([&](Store& store) { return store.find(record.id()); }));
        if (!again || now < again->last_used + *keep.idle) co_return Status{};
        record = *std::move(again);
    }
    const std::string why = "idle for more than " + show(*keep.idle);
    Status done;
    if (keep.on_idle == OnIdle::Destroy) {
        if (!wish.dry_run) done = status_of(co_await remove(record, why));
        note(report, "destroy", record.id(), why, done);
        co_return Status{};
    }
    if (keep.on_idle == OnIdle::SnapshotThenStop) {
        if (!wish.dry_run) done = status_of(co_await take(record, {.kind = {}, .note = "idle"}));
        note(report, "snapshot", record.id(), why, done);
        if (!done) co_return Status{}; // what could not be kept is not stopped either
    }
    if (!wish.dry_run) {
        BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
        done = co_await where->stop(handle(record), 5s);
        if (done) {
            BERTH_CO_TRY(auto again, co_await stored([&](Store& store) { return store.find(record.id()); }));
            Events told{events::stopped(record), events::other(record, "berth.sandbox_idle_stopped", why)};
            if (again)
                done = status_of(co_await change(*std::move(again), Transition::Stop, std::move(told)));
        }
    }
    note(report, "stop", record.id(), why, done);
    co_return Status{};
}

Task<Status> Lifecycle::collect_due(GcWish wish, GcReport& report)
{
    std::string after;
    for (;;) {
        const RecordQuery query{.due_by = clock_.now(), .after = after, .limit = kPage};
        BERTH_CO_TRY(auto page, co_await stored([&](Store& store) { return store.list(query); }));
        for (auto& record : page) {
            if (over(wish)) co_return Status{};
            after = record.id();
            if (!record.damage.empty()) continue;
            BERTH_CO_TRY(const auto held, KeyLock::try_take(data_ + "/lock", lock_name(record)));
            if (!held) continue;
            BERTH_CO_TRY(auto again, co_await stored([&](Store& store) { return store.find(record.id()); }));
            if (!again || again->over()) continue;
            // What fails with one is told, and the others are looked at all the same.
            const std::string id = record.id();
            const auto done = co_await collect_one(*std::move(again), wish, report);
            if (!done) note(report, "look at", id, "it is due", done);
        }
        if (page.size() < kPage) co_return Status{};
    }
}

/// What crashed on the way, and what was superseded longer ago than the grace period. Answers with the
/// backends that records name which may still have an instance.
Task<Result<std::set<std::string>>> Lifecycle::collect_dead(GcWish wish, GcReport& report)
{
    std::set<std::string> used;
    // The dead are many: only the living, and those that gave their key up and are not over, are read.
    for (const bool superseded : {false, true}) {
        RecordQuery query{.superseded = superseded, .limit = kPage};
        for (;;) {
            BERTH_CO_TRY(const auto page, co_await stored([&](Store& store) { return store.list(query); }));
            for (const auto& record : page) {
                if (over(wish)) co_return used;
                BERTH_CO_CHECK(co_await collect_left(record, wish, report));
                if (record.damage.empty()) used.insert(record.backend);
            }
            if (page.size() < kPage) break;
            query.after = page.back().id();
        }
    }
    co_return used;
}

/// Whether a command runs in one that is superseded, or ended within the grace period: whoever gave up its
/// key did not end its work.
Task<Result<bool>> Lifecycle::still_used(SandboxRecord record, GcWish wish)
{
    const bool in_use = record.state == State::Running || record.state == State::Paused;
    if (wish.dry_run) {
        BERTH_CO_TRY(const auto open,
                     co_await stored([&](Store& store) { return store.execs(record.id(), true); }));
        if (in_use && !open.empty()) co_return true;
    } else if (in_use) {
        const auto running = co_await settle_execs(record);
        // One whose instance is gone runs nothing; one that cannot be asked may.
        if (!running && running.error().code != Code::NotFound) co_return true;
        if (running && !running->empty()) co_return true;
    }
    BERTH_CO_TRY(const auto now, co_await stored([&](Store& store) { return store.find(record.id()); }));
    co_return !now || !past_grace(*now, wish, clock_.now());
}

Task<Status> Lifecycle::collect_left(SandboxRecord record, GcWish wish, GcReport& report)
{
    if (!record.damage.empty()) {
        note(report, "leave alone", record.id(), "its record cannot be read: berth rm removes it",
             fail(Code::Internal, "{}", record.damage));
        co_return Status{};
    }
    const bool unfinished = record.state == State::Creating;
    const bool superseded = !record.superseded_by.empty() && past_grace(record, wish, clock_.now());
    if (!unfinished && !superseded) co_return Status{};
    BERTH_CO_TRY(const auto held, KeyLock::try_take(data_ + "/lock", lock_name(record)));
    if (!held) co_return Status{};
    BERTH_CO_TRY(auto again, co_await stored([&](Store& store) { return store.find(record.id()); }));
    if (!again || again->state != record.state) co_return Status{};
    if (superseded) {
        BERTH_CO_TRY(const bool used, co_await still_used(*again, wish));
        if (used) co_return Status{};
    }
    const std::string why =
        unfinished ? "its maker died before it was finished" : "superseded by " + record.superseded_by;
    Status done;
    if (!wish.dry_run) done = status_of(co_await remove(*std::move(again), why));
    note(report, "destroy", record.id(), why, done);
    co_return Status{};
}

/// Records of what is over, with their execs and events: a batch at a time, so that nobody waits long for the
/// store. A clock that stepped back makes nothing old.
Task<Status> Lifecycle::forget_ended(GcWish wish, GcReport& report, std::size_t most)
{
    const auto before = clock_.now() - wish.keep_records;
    std::size_t gone = 0;
    if (wish.dry_run) {
        BERTH_CO_TRY(gone, co_await stored([&](Store& store) { return store.count_ended(before, most); }));
    }
    while (!wish.dry_run && gone < most && !over(wish)) {
        BERTH_CO_TRY(const auto some,
                     co_await stored([&](Store& store) { return store.forget_ended(before, kPage); }));
        gone += some;
        if (some < kPage) break;
    }
    if (gone > 0)
        note(report, "forget", fmt::format("{} records", gone),
             "their sandboxes are gone for more than " + show(wish.keep_records));
    co_return Status{};
}

/// Instances against records. One of another owner is nobody's business; one of ours that no record names
/// is a leftover of a crash: an older or newer generation, or a sandbox that was destroyed. But one that is
/// older than the store may be all that is left of somebody's work: the store was lost, not the sandbox.
Task<Status> Lifecycle::reconcile(std::string name, GcWish wish, GcReport& report)
{
    BERTH_CO_TRY(auto* const where, co_await backend(name));
    BERTH_CO_TRY(const auto all, co_await where->scan());
    BERTH_CO_TRY(const auto first, co_await stored([](Store& s) { return s.ledger({.limit = 1}); }));
    for (const auto& found : all) {
        if (over(wish)) co_return Status{};
        if (found.labels.owner != store_.owner() && !found.labels.owner.empty()) continue;
        auto read = co_await stored([&](Store& s) { return s.find(found.sandbox.sandbox); });
        if (!read) continue; // told already; what it is to be, nobody knows
        auto record = *std::move(read);
        if (!record && found.labels.owner.empty()) continue; // nobody says whose it is
        const bool agrees = record && record->live() && record->state == found.state &&
                            record->native == found.sandbox.native && record->backend == name;
        if (agrees) continue;
        SandboxRecord nameless;
        nameless.spec.id = found.sandbox.sandbox;
        BERTH_CO_TRY(const auto held,
                     KeyLock::try_take(data_ + "/lock", lock_name(record ? *record : nameless)));
        if (!held) continue;
        BERTH_CO_TRY(record, co_await stored([&](Store& s) { return s.find(found.sandbox.sandbox); }));
        const bool ended = !record || record->state == State::Destroyed || record->state == State::Failed;
        const bool other = record && (record->native != found.sandbox.native || record->backend != name);
        if (!ended && !other) {
            const bool settled = record->live() && record->state != State::Creating;
            if (wish.dry_run || !settled || found.state == record->state) continue;
            // Somebody may have started or stopped it since the backend was asked; now nobody can.
            BERTH_CO_TRY(auto seen, co_await where->inspect(found.sandbox));
            if (seen.health == Health::Unresponsive) continue;
            BERTH_CO_CHECK(co_await move_mark::undo(store_, pool_, *where, *record, seen));
            BERTH_CO_TRY(record, co_await follow_state(*std::move(record), seen.state));
            continue;
        }
        if (!record && !wish.orphans && (first.empty() || found.labels.created < first.front().time)) {
            note(report, "leave alone", found.sandbox.native,
                 "it is older than the store, and no record knows it: berth gc --orphans removes it");
            continue;
        }
        const std::string why = !record ? "no record knows it"
                                : other ? fmt::format("its sandbox is at generation {}", record->generation)
                                        : fmt::format("its sandbox is {}", to_string(record->state));
        Status done;
        // What failed may have failed while it was being adopted: then it is not ours.
        if (!wish.dry_run && record && record->state == State::Failed)
            done = co_await where->release(found.sandbox);
        if (!wish.dry_run && done) done = co_await where->destroy(found.sandbox);
        note(report, "remove instance", found.sandbox.native, why, done);
    }
    co_return Status{};
}

/// Whether its sandbox is there, or lost: then it may be made anew from it.
Task<bool> Lifecycle::may_come_back(SnapshotRecord snapshot)
{
    const auto of = co_await stored([&](Store& store) { return store.find(snapshot.sandbox); });
    co_return !of || (*of && !(*of)->over()); // a record that cannot be read is somebody's all the same
}

Task<Status> Lifecycle::collect_snapshots(GcWish wish, GcReport& report)
{
    const auto listed = [](Store& store) { return store.snapshots({}); };
    BERTH_CO_TRY(const auto all, wish.keep_bytes ? co_await snapshots({}) : co_await stored(listed));
    const auto now = clock_.now();
    SnapshotKeeping keeping(wish, now);
    std::map<std::string, bool> known;
    for (const auto& snapshot : all) { // newest first
        known[snapshot.id] = true;
        std::string why;
        if (snapshot.internal) {
            // A fork drops its own; whoever still works on it holds the lock of its sandbox.
            SandboxRecord of;
            of.spec.id = snapshot.sandbox;
            BERTH_CO_TRY(auto source, co_await stored([&](Store& s) { return s.find(snapshot.sandbox); }));
            BERTH_CO_TRY(const auto held,
                         KeyLock::try_take(data_ + "/lock", lock_name(source ? *source : of)));
            if (!held) continue;
            why = "left by a fork that died";
        } else if (snapshot.note.starts_with(kTemplateNote)) {
            continue;
        } else {
            why = keeping.why_not(snapshot, keeping.newest(snapshot) && co_await may_come_back(snapshot));
        }
        if (why.empty()) continue;
        Status done;
        if (!wish.dry_run) done = co_await drop(snapshot, why);
        // Layers are counted when they go, once nothing uses them.
        if (done && (wish.dry_run || snapshot.kind != snapshot_kind::kLayer)) report.bytes += snapshot.bytes;
        note(report, "remove snapshot", snapshot.id, why, done);
    }
    // Payloads without a record: of one that was never finished, which whoever makes it has locked. One that
    // is complete may have lost its record with the store.
    const std::string root = snapshot_directory();
    BERTH_CO_TRY(const auto names, co_await pool_.call([&] { return payload::list(root); }));
    for (const auto& name : names) {
        const std::string id = name.substr(0, name.find('.'));
        if (!is_id(id, "snap_") || known.contains(id)) continue;
        BERTH_CO_TRY(const auto recorded,
                     co_await stored([&](Store& store) { return store.find_snapshot(id); }));
        if (recorded) continue;
        BERTH_CO_TRY(const auto held, KeyLock::try_take(data_ + "/lock", "snapshot:" + id));
        if (!held) continue;
        if (payload::complete_name(name)) {
            const auto since = co_await pool_.call([&] { return payload::changed(root, name); });
            if (!since || now < *since + wish.grace) continue;
        }
        Status done;
        if (!wish.dry_run) done = co_await pool_.call([&] { return payload::remove(root, id); });
        note(report, "remove payload", name, "no record knows it", done);
    }
    co_return Status{};
}

Task<Result<GcReport>> Lifecycle::collect(GcWish wish)
{
    GcReport report;
    BERTH_CO_CHECK(co_await collect_overdue(wish, report));
    BERTH_CO_CHECK(co_await collect_due(wish, report));
    BERTH_CO_CHECK(co_await collect_dead(wish, report));
    BERTH_CO_CHECK(co_await forget_ended(wish, report, SIZE_MAX));
    for (const auto& name : backends_.registry().names()) {
        auto done = co_await reconcile(name, wish, report);
        if (!done) note(report, "look at backend", name, "it could not be asked", done);
    }
    BERTH_CO_CHECK(co_await collect_snapshots(wish, report));
    for (const auto& name : backends_.registry().names()) {
        BERTH_CO_TRY(auto* const where, co_await backend(name));
        auto removed = co_await where->collect(snapshot_directory(), wish.dry_run);
        if (!removed) {
            note(report, "collect", name, "unused parts", status_of(removed));
            continue;
        }
        report.bytes += removed->bytes;
        for (const auto& object : removed->objects) note(report, "remove", object, "nothing uses it");
    }
    co_return report;
}

Task<Result<GcReport>> Lifecycle::sweep(Sweep what, const bool& over)
{
    GcReport report;
    const GcWish wish{.over = &over};
    BERTH_CO_CHECK(co_await collect_overdue(wish, report));
    BERTH_CO_CHECK(co_await collect_due(wish, report));
    if (what == Sweep::Deadlines) co_return report;
    BERTH_CO_CHECK(co_await forget_ended(wish, report, kPage));
    BERTH_CO_TRY(const auto used, co_await collect_dead(wish, report));
    for (const auto& name : used) {
        auto done = co_await reconcile(name, wish, report);
        if (!done) note(report, "look at backend", name, "it could not be asked", done);
    }
    co_return report;
}

Task<Result<Collected>> Lifecycle::collect_unused(std::string name)
{
    BERTH_CO_TRY(auto* const where, co_await backend(name));
    co_return co_await where->collect(snapshot_directory(), false);
}

Task<Status> Lifecycle::clear_up(std::string ref)
{
    BERTH_CO_TRY(const auto record, co_await find(ref));
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    // To be looked at is enough: what a dead copier froze is thawed.
    BERTH_CO_CHECK(co_await where->inspect(handle(record)));
    GcReport report;
    const GcWish unfinished{.grace = std::chrono::hours(24 * 36500)};
    BERTH_CO_CHECK(co_await collect_dead(unfinished, report));
    BERTH_CO_CHECK(co_await collect_snapshots(unfinished, report));
    BERTH_CO_CHECK(co_await collect_unused(record.backend));
    co_return Status{};
}

} // namespace berth
