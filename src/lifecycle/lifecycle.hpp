#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/blocking_pool.hpp"
#include "base/clock.hpp"
#include "core/store.hpp"
#include "lifecycle/answers.hpp"
#include "lifecycle/backends.hpp"
#include "lifecycle/exec_wish.hpp"
#include "lifecycle/key_lock.hpp"

namespace berth {

class Lot;
class Parking;

/// Sandboxes that survive the processes that use them: found again by key, resumed honestly, never lost
/// silently, never leaked. What is to happen is in the store before the world changes; whoever comes
/// after a crash finishes or undoes it. A `ref` is an id, a unique prefix of one, a name, or a key.
class Lifecycle {
public:
    /// Borrowed, all of it. `data` is the state directory.
    Lifecycle(Store& store, Backends& backends, BlockingPool& pool, std::string data,
              const Clock& clock = system_clock());

    /// The sandbox of the key (or of the name), whatever that takes; a new one where there is none.
    Task<Result<Acquired>> acquire(AcquireRequest request);
    /// Nothing: no sandbox has the key. Never makes one; a backend that cannot be asked is an error.
    Task<Result<std::optional<Acquired>>> try_resume(std::string key);
    /// Makes a known one usable: attached, started, or restored from its newest snapshot.
    Task<Result<Acquired>> use(std::string ref);

    Task<Result<SandboxRecord>> find(std::string ref);
    /// The record, after the backend was asked what the instance does.
    Task<Result<SandboxRecord>> refresh(std::string ref);

    Task<Result<SandboxRecord>> stop(std::string ref, std::chrono::milliseconds grace);
    Task<Result<SandboxRecord>> pause(std::string ref);
    Task<Result<SandboxRecord>> resume(std::string ref);
    /// Destroyed already is success.
    Task<Result<SandboxRecord>> destroy(std::string ref);
    Task<Status> keep_alive(std::string ref);
    /// Somebody uses it, in whatever way: it is not idle. `record` is as the store has it now. Written at
    /// most once a second, synced with what comes later; where it cannot be noted, the use is none the worse.
    Task<SandboxRecord> note_use(SandboxRecord record);
    /// The same for something that takes long; how soon to say so again.
    Task<std::chrono::nanoseconds> still_in_use(std::string id);
    /// Says so again and again. Never returns: whoever has done what takes long cancels it.
    Task<void> hold(std::vector<std::string> sandboxes);

    /// Borrows an instance that somebody else made; it is never stopped or destroyed by us.
    Task<Result<Acquired>> attach(std::string backend, std::string native, std::string name);
    Task<Result<SandboxRecord>> detach(std::string ref);

    Task<Result<SnapshotAnswer>> snapshot(std::string ref, SnapshotWish wish);
    /// Back to what it was: a new instance first, then the old one goes. Without a living sandbox, or
    /// when the wish has a key, a name or a backend of its own, a new one.
    Task<Result<Acquired>> restore(std::string snapshot, RestoreWish wish);
    Task<Status> remove_snapshot(std::string snapshot);
    Task<Result<SnapshotRecord>> find_snapshot(std::string ref);
    /// With how much it takes, where its backend can tell: counted now and noted where nobody has asked
    /// before.
    Task<SnapshotRecord> weighed(SnapshotRecord one);
    /// As the store lists them, each weighed.
    Task<Result<std::vector<SnapshotRecord>>> snapshots(std::string sandbox);
    Task<Result<ForkAnswer>> fork(std::string ref, ForkWish wish);

    /// To another backend: the same sandbox in its next generation, with what the best common kind of
    /// snapshot holds. The old instance goes when the new one stands; where that fails everything is as it
    /// was.
    Task<Result<MoveAnswer>> move(std::string ref, MoveWish wish);

    /// Starts a command in a sandbox that use() made usable; recorded before it runs.
    Task<Status> exec(SandboxRecord sandbox, ExecSpec spec);
    Task<Status> exec(SandboxRecord sandbox, ExecSpec spec, ExecWish wish);
    /// Its end, recorded once however often it is told. `timed_out`: we killed it for that; whether others
    /// did, its record says.
    Task<Status> finish_exec(SandboxRecord sandbox, std::string exec, ExitStatus status,
                             bool timed_out = false);
    /// Kills a command when its time is over. Never returns: whoever waits for its end cancels it.
    Task<void> hold_to_time(SandboxRecord sandbox, std::string exec);
    /// The same until its end is recorded, for somebody who does not read what it prints.
    Task<Status> mind_exec(SandboxRecord sandbox, std::string exec);
    /// Ends what ended while nobody looked; the execs that still run.
    Task<Result<std::vector<ExecRecord>>> settle_execs(SandboxRecord sandbox);
    /// By id or unique prefix, of this sandbox; empty: the newest.
    Task<Result<ExecRecord>> find_exec(SandboxRecord sandbox, std::string ref);

    /// Finishes what crashed, stops the idle, destroys the overdue, removes what nobody owns.
    Task<Result<GcReport>> collect(GcWish wish);
    /// The part of it that cannot wait for somebody to ask: what a running server does again and again.
    /// `over`: once it is true no further one is begun.
    Task<Result<GcReport>> sweep(Sweep what, const bool& over);
    /// What a backend keeps for instances and snapshots that are gone.
    Task<Result<Collected>> collect_unused(std::string backend);
    /// Somebody who copied this sandbox was killed: it goes on, and what he had not finished is removed.
    Task<Status> clear_up(std::string ref);

    /// New sandboxes are made of what is parked there, where it fits; null: none are. Borrowed.
    void claim_from(Lot* lot) noexcept { lot_ = lot; }
    /// An instance of this shape that is nobody's yet (core/parking.hpp), from a snapshot where that is not
    /// empty; the id of the sandbox that it can become.
    Task<Result<std::string>> park(std::string backend, SandboxSpec shape, std::string snapshot);
    Task<Status> unpark(std::string backend, std::string id);
    Task<Status> clear_parked(std::string backend);

    [[nodiscard]] Store& store() noexcept { return store_; }
    [[nodiscard]] static SandboxHandle handle(const SandboxRecord& record);
    Task<Result<Backend*>> backend(std::string name);
    [[nodiscard]] std::string snapshot_directory() const { return data_ + "/snapshot"; }
    [[nodiscard]] std::string volume_directory() const { return data_ + "/volume"; }

private:
    using Events = std::vector<LedgerEvent>;
    struct Locked {
        KeyLock lock;
        SandboxRecord record;
    };
    struct Begun {
        std::optional<KeyLock> lock;
        SandboxRecord record;
    };

    template <class F> auto stored(F work) -> Task<std::invoke_result_t<F, Store&>>;
    Task<Result<KeyLock>> lock(std::string name);
    Task<Result<std::optional<KeyLock>>> new_names(std::string name, std::vector<std::string> all);
    Task<Result<Locked>> find_locked(std::string ref);
    [[nodiscard]] Result<SandboxRecord> advance(SandboxRecord record, Transition transition) const;
    Task<Result<SandboxRecord>> change(SandboxRecord record, Transition transition, Events events);

    Task<Status> tell_backend(const SandboxRecord& record);
    Task<Result<Parking*>> parking(std::string backend);
    /// Of a new sandbox: that of an instance that waits for it, or one of its own.
    [[nodiscard]] std::string new_id(const std::string& backend, const SandboxSpec& spec,
                                     const std::string& snapshot) const;
    void give_back(const std::string& id) const;

    // A sandbox that is locked, from here on.
    Task<Result<CreateRequest>> instance_wish(SandboxRecord& record);
    Task<Result<std::optional<SandboxRecord>>> adopt_instance(SandboxRecord record);
    Task<Result<SandboxRecord>> make_instance(SandboxRecord record, std::optional<SnapshotSource> from,
                                              MakeProgress progress = {});
    Task<Result<Begun>> begin_record(SandboxRecord record);
    Task<Error> give_up(SandboxRecord record, Error error);
    Task<Result<SandboxRecord>> supersede(SandboxRecord old, SandboxRecord record, Events events);
    Task<Result<SandboxRecord>> keep_for(SandboxRecord record, Retention wish);
    Task<Result<Acquired>> create(AcquireRequest request, std::optional<SandboxRecord> old, std::string why);
    Task<Result<SandboxRecord>> finish_creating(SandboxRecord record);
    Task<Result<std::optional<Acquired>>> resume_tiers(SandboxRecord record, OnStateLoss on_loss);
    Task<Result<std::optional<Acquired>>> recover(SandboxRecord record, OnStateLoss on_loss, std::string why);
    Task<Result<Acquired>> restored_from(SandboxRecord now, SandboxRecord before,
                                         std::vector<SnapshotRecord> all, SnapshotRecord used,
                                         std::vector<std::string> notes, std::string why);
    Task<Result<Found>> look(SandboxRecord record);
    Task<Result<SandboxRecord>> follow_state(SandboxRecord record, State seen);
    Task<Result<SandboxRecord>> replace_instance(SandboxRecord record, SnapshotRecord snapshot,
                                                 std::string why);
    Task<Result<SandboxRecord>> remove(SandboxRecord record, std::string why);
    Task<Result<std::optional<SandboxRecord>>> remove_damaged(std::string ref);
    Task<Result<SnapshotAnswer>> take(SandboxRecord record, SnapshotWish wish);
    Task<Result<SnapshotTaken>> take_tar(SandboxRecord record, SnapshotRequest request);
    Task<Status> drop(SnapshotRecord snapshot, std::string why);
    Task<Status> forget_latest(SnapshotRecord gone);
    Task<Result<SandboxRecord>> settle_at(SandboxRecord old, SandboxRecord next, SnapshotRecord snapshot,
                                          MoveAnswer& answer);
    Task<Result<SnapshotSource>> source_of(SnapshotRecord snapshot, std::string backend);
    Task<std::string> restorers_of(std::string kind);

    Task<Status> collect_due(GcWish wish, GcReport& report);
    Task<Status> collect_overdue(GcWish wish, GcReport& report);
    Task<Status> end_overdue(ExecRecord exec, GcWish wish, GcReport& report);
    Task<Status> forget_ended(GcWish wish, GcReport& report, std::size_t most);
    Task<Status> collect_one(SandboxRecord record, GcWish wish, GcReport& report);
    Task<Status> reconcile(std::string backend, GcWish wish, GcReport& report);
    Task<Status> collect_left(SandboxRecord record, GcWish wish, GcReport& report);
    Task<Result<std::set<std::string>>> collect_dead(GcWish wish, GcReport& report);
    Task<Result<bool>> still_used(SandboxRecord record, GcWish wish);
    Task<bool> may_come_back(SnapshotRecord snapshot);
    Task<Status> collect_snapshots(GcWish wish, GcReport& report);

    Store& store_;
    Backends& backends_;
    BlockingPool& pool_;
    std::string data_;
    const Clock& clock_;
    Lot* lot_ = nullptr;
    std::mutex telling_;
    std::map<std::string, SteadyTime> told_in_use_; ///< when a backend was told of one that it is in use
};

} // namespace berth
