// Snapshots, what is made from them, and forks, which are both at once.

#include <algorithm>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "core/admit.hpp"
#include "core/spec_hash.hpp"
#include "lifecycle/borrowed.hpp"
#include "lifecycle/client.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/key.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/lot.hpp"
#include "lifecycle/payload.hpp"
#include "lifecycle/stored.hpp"
#include "lifecycle/taken.hpp"
#include "lifecycle/tar_snapshot.hpp"
#include "lifecycle/template_note.hpp"

namespace berth {

namespace {

bool holds(const std::vector<std::string>& kinds, const std::string& kind)
{
    return std::ranges::find(kinds, kind) != kinds.end();
}

} // namespace

std::vector<std::string> made_by(const Capabilities& have)
{
    auto kinds = have.snapshots;
    if (!have.can(Operation::Archive)) return kinds;
    kinds.emplace_back(snapshot_kind::kRootTar);
    kinds.emplace_back(snapshot_kind::kWorkspaceTar);
    return kinds;
}

std::vector<std::string> restored_by(const Capabilities& have)
{
    auto kinds = have.restores;
    if (have.can(Operation::Archive)) kinds.emplace_back(snapshot_kind::kWorkspaceTar);
    return kinds;
}

Task<Result<SnapshotRecord>> Lifecycle::find_snapshot(std::string ref)
{
    const auto look_up = [&](Store& store) -> Result<SnapshotRecord> {
        if (is_id(ref, "snap_")) {
            BERTH_TRY(auto found, store.find_snapshot(ref));
            if (found) return *std::move(found);
        }
        const std::string prefix = ref.starts_with("snap_") ? ref : "snap_" + ref;
        BERTH_TRY(auto all, store.snapshots({}));
        std::erase_if(all, [&](const auto& one) { return one.internal || !one.id.starts_with(prefix); });
        if (all.empty() || prefix.size() < 7)
            return fail(Code::NotFound, "no snapshot '{}': berth snapshots lists them", printable(ref, 60));
        if (all.size() > 1)
            return fail(Code::Conflict, "'{}' stands for {} snapshots, the newest is {}", printable(ref, 60),
                        all.size(), all.front().id);
        return all.front();
    };
    co_return co_await stored(look_up);
}

/// What is read out of a sandbox needs one that runs.
Task<Result<SnapshotTaken>> Lifecycle::take_tar(SandboxRecord record, SnapshotRequest request)
{
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    const bool stopped = record.state == State::Stopped;
    if (stopped) BERTH_CO_CHECK(co_await where->start(handle(record)));
    auto taken = co_await tar_snapshot::take(*where, handle(record), record.spec, std::move(request));
    if (!taken)
        taken = std::unexpected(std::move(taken).error().while_doing("taking a snapshot of " + record.id()));
    if (stopped) BERTH_CO_CHECK(co_await where->stop(handle(record), std::chrono::milliseconds(0)));
    co_return taken;
}

/// Of a sandbox that is locked. The payload is complete and on disk before the record speaks of it.
Task<Result<SnapshotAnswer>> Lifecycle::take(SandboxRecord record, SnapshotWish wish)
{
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    const auto kinds = made_by(where->capabilities());
    if (kinds.empty()) co_return unsupported(Operation::Snapshot, where->name());
    if (!wish.kind.empty() && !holds(kinds, wish.kind))
        co_return fail(Code::Unsupported, "backend {} makes no snapshots of kind '{}': it makes {}",
                       where->name(), printable(wish.kind, 60), fmt::join(kinds, ", "));
    const std::string kind = wish.kind.empty() ? kinds.front() : wish.kind;
    BERTH_CO_CHECK(tar_snapshot::check(record.spec, kind));
    SnapshotAnswer answer;
    SnapshotRecord& made = answer.record;
    made.id = make_snapshot_id(clock_);
    const std::string root = snapshot_directory();
    // Whoever collects leaves alone what is in the making.
    BERTH_CO_TRY(const auto making, co_await lock("snapshot:" + made.id));
    BERTH_CO_TRY(const auto directory, co_await pool_.call([&] { return payload::begin(root, made.id); }));
    hooks::kill_point("snapshot begun");
    const SnapshotRequest request{
        .id = made.id, .kind = kind, .directory = directory, .progress = wish.progress};
    Result<SnapshotTaken> taken = fail(Code::Internal, "no snapshot was taken");
    if (tar_snapshot::is_kind(kind))
        taken = co_await take_tar(record, request);
    else
        taken = co_await where->snapshot(handle(record), request);
    if (!taken) {
        (void)co_await pool_.call([&] { return payload::remove(root, made.id); });
        co_return std::unexpected(std::move(taken).error());
    }
    hooks::kill_point("snapshot taken");
    // What no record can speak of is nobody's: on a full disk it must not stay until somebody collects.
    const auto undo = [&](Error why) -> Task<Error> {
        if (why.code != Code::Exhausted) co_return why;
        const SnapshotSource source{
            .id = made.id, .kind = kind, .directory = fmt::format("{}/{}", root, made.id)};
        if (!tar_snapshot::is_kind(kind)) (void)co_await where->drop_snapshot(source);
        (void)co_await pool_.call([&] { return payload::remove(root, made.id); });
        co_return why;
    };
    if (auto done = co_await pool_.call([&] { return payload::complete(root, made.id); }); !done)
        co_return std::unexpected(co_await undo(std::move(done).error()));
    hooks::kill_point("snapshot complete");
    made.sandbox = record.id();
    made.kind = taken->kind;
    made.backend = record.backend;
    made.parent = record.latest_snapshot;
    made.note = wish.note;
    made.file = taken->file;
    made.sha256 = taken->sha256;
    made.bytes = taken->bytes;
    made.live_copy = taken->live_copy;
    made.internal = wish.internal;
    made.created = clock_.now();
    made.spec = record.spec;
    answer.elapsed = taken->elapsed;
    answer.notes = std::move(taken->notes);
    Events told;
    if (!wish.internal) told.push_back(events::snapshotted(made));
    // In one write with what its sandbox is made anew from: killed in between, that would be an older one.
    if (auto added = co_await stored([&](Store& store) { return store.add_snapshot(made, told); }); !added)
        co_return std::unexpected(co_await undo(std::move(added).error()));
    hooks::kill_point("snapshot recorded");
    co_return answer;
}

Task<Result<SnapshotAnswer>> Lifecycle::snapshot(std::string ref, SnapshotWish wish)
{
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    BERTH_CO_TRY(const auto found, co_await look(held.record));
    BERTH_CO_TRY(auto record, co_await follow_state(std::move(held.record), found.state));
    if (record.state != State::Running && record.state != State::Stopped && record.state != State::Paused &&
        record.state != State::Attached)
        co_return fail(Code::NotFound, "sandbox {} is {}: there is nothing to take a snapshot of",
                       record.id(), to_string(record.state));
    co_return co_await take(std::move(record), std::move(wish));
}

/// In words, for somebody who asked another. A backend that cannot be opened here is none.
Task<std::string> Lifecycle::restorers_of(std::string kind)
{
    std::vector<std::string> able;
    for (const auto& name : backends_.registry().names()) {
        const auto where = co_await backend(name);
        if (where && holds(restored_by((*where)->capabilities()), kind)) able.push_back(name);
    }
    if (able.empty()) co_return "no backend of this program restores it";
    co_return fmt::format("it can be restored on {}", fmt::join(able, ", "));
}

/// Read and checked before anything is made from it.
Task<Result<SnapshotSource>> Lifecycle::source_of(SnapshotRecord snapshot, std::string on)
{
    BERTH_CO_TRY(auto* const where, co_await backend(on));
    const auto accepted = restored_by(where->capabilities());
    if (!holds(accepted, snapshot.kind))
        co_return fail(Code::Unsupported, "snapshot {} is a {}: backend {} restores {}; {}", snapshot.id,
                       snapshot.kind, on,
                       accepted.empty() ? "none" : fmt::format("{}", fmt::join(accepted, ", ")),
                       co_await restorers_of(snapshot.kind));
    const std::string root = snapshot_directory();
    BERTH_CO_CHECK(co_await pool_.call([&] { return payload::check(root, snapshot); }));
    co_return SnapshotSource{
        .id = snapshot.id, .kind = snapshot.kind, .directory = fmt::format("{}/{}", root, snapshot.id)};
}

/// A name finds one sandbox: none of `all` may be taken. The lock keeps out whoever wants `name` itself or
/// forks by it; it comes before every other lock, as where a sandbox is acquired.
Task<Result<std::optional<KeyLock>>> Lifecycle::new_names(std::string name, std::vector<std::string> all)
{
    std::optional<KeyLock> held;
    if (name.empty()) co_return held;
    for (const auto& one : all) BERTH_CO_CHECK(check_sandbox_name(one));
    BERTH_CO_TRY(held, co_await lock("name:" + name));
    for (const auto& one : all)
        BERTH_CO_CHECK(co_await stored([&](Store& s) { return taken::check_new_name(s, one); }));
    co_return held;
}

Task<Result<Acquired>> Lifecycle::restore(std::string ref, RestoreWish wish)
{
    if (!wish.key.empty()) BERTH_CO_CHECK(check_key(wish.key));
    if (!wish.backend.empty()) BERTH_CO_CHECK(backends_.registry().check(wish.backend));
    BERTH_CO_TRY(const auto snapshot, co_await find_snapshot(ref));
    const bool own = !wish.name.empty() || !wish.key.empty() || !wish.backend.empty();
    BERTH_CO_TRY(const auto old, co_await stored([&](Store& s) { return s.find(snapshot.sandbox); }));
    if (old && old->live() && !wish.as_new && !own) {
        BERTH_CO_TRY(auto held, co_await find_locked(old->id()));
        // While we waited for whoever removed it, say: what is destroyed does not run again.
        if (!held.record.live())
            co_return fail(Code::Conflict, "sandbox {} is gone, or another has its key, by now: try again",
                           held.record.id());
        if (held.record.state == State::Attached)
            co_return fail(Code::Denied, "sandbox {} is borrowed and cannot be replaced", held.record.id());
        Acquired answer{.tier = Tier::Restored, .snapshot = snapshot.id};
        answer.lost = std::max<std::chrono::nanoseconds>(held.record.last_used - snapshot.created, {});
        BERTH_CO_TRY(answer.record, co_await replace_instance(std::move(held.record), snapshot, "asked"));
        co_return answer;
    }
    BERTH_CO_TRY(const auto name_held, co_await new_names(wish.name, {wish.name}));
    SandboxRecord record;
    record.backend = wish.backend.empty() ? snapshot.backend : wish.backend;
    BERTH_CO_TRY(auto source, co_await source_of(snapshot, record.backend));
    record.spec = snapshot.spec;
    if (wish.root) record.spec.root = *std::move(wish.root);
    record.spec.labels.erase(std::string(kAttachmentLabel)); // what is made of a borrowed one is ours
    record.spec.labels.erase(std::string(kClientLabel));     // and of a throw-away one nobody waits for it
    record.spec.labels.erase(std::string(kBuildLabel));
    record.spec.name = wish.name;
    if (!wish.name.empty()) record.spec.hostname.clear();
    if (wish.volumes) {
        record.spec.volumes = *std::move(wish.volumes);
        BERTH_CO_CHECK(validate(record.spec));
    }
    if (wish.limits) {
        record.spec.policy.limits.memory = wish.limits->memory;
        record.spec.policy.limits.cpus = wish.limits->cpus;
    }
    if (record.backend != snapshot.backend) {
        // What the one held, the other may not. The backend decides again, and says what it does not hold.
        BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
        std::vector<std::string> unheld;
        BERTH_CO_CHECK(admit(record.spec, where->capabilities().holds, unheld));
    }
    std::optional<KeyLock> key_held;
    if (!wish.key.empty()) {
        BERTH_CO_TRY(key_held, co_await lock("key:" + wish.key));
        BERTH_CO_CHECK(co_await stored([&](Store& s) { return taken::check_new_key(s, wish.key); }));
    }
    record.spec.id = new_id(record.backend, record.spec, snapshot.id);
    record.spec_hash = spec_hash(record.spec);
    record.key = wish.key;
    record.native = record.spec.id;
    record.latest_snapshot = snapshot.id;
    // How long a build may take says nothing about what is made of it.
    if (old && !snapshot.note.starts_with(kTemplateNote)) record.retention = old->retention;
    record.created = record.changed = record.last_used = clock_.now();
    BERTH_CO_TRY(auto begun, co_await begin_record(std::move(record)));
    record = std::move(begun.record);
    hooks::kill_point("restore recorded");
    auto made = co_await make_instance(record, std::move(source));
    if (!made) co_return std::unexpected(co_await give_up(std::move(record), std::move(made).error()));
    hooks::kill_point("restore made");
    Events told{events::created(*made), events::started(*made, snapshot.id)};
    Acquired answer{.tier = Tier::Restored, .snapshot = snapshot.id};
    BERTH_CO_TRY(answer.record, co_await change(*std::move(made), Transition::Usable, std::move(told)));
    co_return answer;
}

Task<Status> Lifecycle::drop(SnapshotRecord snapshot, std::string why)
{
    BERTH_CO_TRY(auto* const where, co_await backend(snapshot.backend));
    const std::string root = snapshot_directory();
    const SnapshotSource source{
        .id = snapshot.id, .kind = snapshot.kind, .directory = fmt::format("{}/{}", root, snapshot.id)};
    if (!tar_snapshot::is_kind(snapshot.kind)) BERTH_CO_CHECK(co_await where->drop_snapshot(source));
    SandboxRecord of;
    of.spec.id = snapshot.sandbox;
    auto told = events::other(of, "berth.snapshot_deleted", why);
    told.data["snapshot_id"] = snapshot.id;
    Events events;
    if (!snapshot.internal) events.push_back(std::move(told));
    BERTH_CO_CHECK(co_await stored([&](Store& s) { return s.remove_snapshot(snapshot.id, events); }));
    if (lot_ != nullptr) lot_->forget(snapshot.id);
    hooks::kill_point("snapshot forgotten");
    BERTH_CO_CHECK(co_await pool_.call([&] { return payload::remove(root, snapshot.id); }));
    if (snapshot.internal) co_return Status{};
    co_return co_await forget_latest(std::move(snapshot));
}

/// Its sandbox names the newest of those that are left. Whoever changes that just now goes before: a name of
/// one that is gone only says less.
Task<Status> Lifecycle::forget_latest(SnapshotRecord gone)
{
    BERTH_CO_TRY(auto of, co_await stored([&](Store& s) { return s.find(gone.sandbox); }));
    if (!of || of->latest_snapshot != gone.id || !of->live() || of->state == State::Creating)
        co_return Status{};
    BERTH_CO_TRY(const auto held,
                 KeyLock::try_take(data_ + "/lock", of->key.empty() ? of->id() : "key:" + of->key));
    if (!held) co_return Status{};
    BERTH_CO_TRY(of, co_await stored([&](Store& s) { return s.find(gone.sandbox); }));
    if (!of || of->latest_snapshot != gone.id || of->state == State::Creating) co_return Status{};
    BERTH_CO_TRY(auto left, co_await stored([&](Store& s) { return s.snapshots(gone.sandbox); }));
    std::erase_if(left, [](const SnapshotRecord& one) { return one.internal; });
    of->latest_snapshot = left.empty() ? std::string{} : left.front().id;
    BERTH_CO_TRY([[maybe_unused]] const auto kept,
                 co_await stored([&](Store& s) { return s.update(*of, {}); }));
    co_return Status{};
}

Task<Status> Lifecycle::remove_snapshot(std::string ref)
{
    BERTH_CO_TRY(auto snapshot, co_await find_snapshot(ref));
    co_return co_await drop(std::move(snapshot), "asked");
}

/// One snapshot, and as many sandboxes from it as were asked for; all of them or none. Each has an id,
/// a host name and a machine id of its own, none of the source's processes and nothing of its memory.
Task<Result<ForkAnswer>> Lifecycle::fork(std::string ref, ForkWish wish)
{
    constexpr std::size_t kMost = 1000;
    if (wish.count == 0 || wish.count > kMost)
        co_return fail(Code::Invalid, "a fork makes 1 to {} sandboxes, not {}", kMost, wish.count);
    std::vector<std::string> names(wish.count, wish.name);
    for (std::size_t i = 0; !wish.name.empty() && wish.count > 1 && i < wish.count; ++i)
        names[i] = fmt::format("{}-{}", wish.name, i + 1);
    BERTH_CO_TRY(const auto name_held, co_await new_names(wish.name, names));
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    BERTH_CO_TRY(const auto found, co_await look(held.record));
    BERTH_CO_TRY(const auto source, co_await follow_state(std::move(held.record), found.state));
    if (source.state != State::Running && source.state != State::Stopped && source.state != State::Paused &&
        source.state != State::Attached)
        co_return fail(Code::Conflict, "sandbox {} is {}: it cannot be forked", source.id(),
                       to_string(source.state));
    const auto begun = clock_.steady();
    BERTH_CO_TRY(auto taken, co_await take(source, {.kind = {}, .note = "fork", .internal = true}));
    ForkAnswer answer{.live_copy = taken.record.live_copy, .bytes = taken.record.bytes, .notes = taken.notes};
    Status failed;
    auto from = co_await source_of(taken.record, source.backend);
    if (!from) failed = std::unexpected(from.error());
    for (std::size_t i = 0; failed && i < wish.count; ++i) {
        SandboxRecord record;
        record.spec = source.spec;
        record.spec.id = make_sandbox_id(clock_);
        record.spec.name = names[i];
        record.spec.hostname.clear();
        record.spec.labels.erase(std::string(kAttachmentLabel));
        record.spec.labels.erase(std::string(kClientLabel));
        record.spec.labels[std::string(kForkLabel)] = source.id();
        record.spec_hash = spec_hash(record.spec);
        record.backend = source.backend;
        record.native = record.spec.id;
        record.retention = source.retention;
        record.created = record.changed = record.last_used = clock_.now();
        const auto own = co_await lock(record.id());
        if (!own) failed = std::unexpected(own.error());
        if (!own) break;
        auto recorded = co_await stored([&](Store& store) { return store.insert(record, {}); });
        if (!recorded) failed = std::unexpected(std::move(recorded).error());
        if (!failed) break;
        record = *std::move(recorded);
        hooks::kill_point("fork recorded");
        auto made = co_await make_instance(record, *from);
        if (!made) {
            failed = std::unexpected(co_await give_up(std::move(record), std::move(made).error()));
            break;
        }
        hooks::kill_point("fork made");
        Events told{events::created(*made), events::started(*made)};
        told.front().data["fork_of"] = source.id();
        auto usable = co_await change(*made, Transition::Usable, std::move(told));
        if (!usable) failed = std::unexpected(usable.error());
        answer.forks.push_back(usable ? *std::move(usable) : *std::move(made)); // which goes with the others
    }
    // The forks hold the layers now.
    auto dropped = co_await drop(taken.record, "fork done");
    if (!failed) {
        for (auto& made : answer.forks) (void)co_await remove(std::move(made), "a sibling could not be made");
        co_return std::unexpected(std::move(failed).error().while_doing("forking " + source.id()));
    }
    if (!dropped) co_return std::unexpected(std::move(dropped).error());
    answer.elapsed = clock_.steady() - begun;
    co_return answer;
}

} // namespace berth
