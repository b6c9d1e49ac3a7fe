#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "server/e2b/entry.hpp"
#include "server/e2b/process_notes.hpp"
#include "server/e2b/templates.hpp"
#include "server/e2b/volumes.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

using EntryPtr = std::shared_ptr<Entry>; ///< shared: a stream outlives the entry's place in the map

/// The sandboxes of this protocol's clients: made, found, paused, ended, and ended when their time is over.
/// For the server's one thread.
class Sandboxes {
public:
    Sandboxes(gate::Ground& ground, Templates& templates, Volumes& volumes)
        : ground_(ground), templates_(templates), volumes_(volumes), notes_(ground),
          documents_(ground.pool, ground.berth.data() + "/e2b"),
          origins_(ground.pool, ground.berth.data() + "/e2b/origins")
    {
    }

    /// Reads what an earlier server left: its sandboxes live.
    Task<Status> load();

    /// Whoever's it is; null when it is not there or is being ended.
    [[nodiscard]] EntryPtr find(std::string_view id) const;
    /// The tenant's own. "id-suffix" of old clients is the id.
    [[nodiscard]] Result<EntryPtr> of_tenant(std::string_view id, const std::string& tenant) const;
    [[nodiscard]] std::vector<EntryPtr> all() const;

    Task<Result<EntryPtr>> create(NewSandbox wish, std::string tenant);
    /// Removes it whatever its state.
    Task<Status> kill(EntryPtr entry, std::string why);
    /// Conflict: paused already.
    Task<Status> pause(EntryPtr entry, bool keep_memory);
    /// Running already is success; true when it was resumed.
    Task<Result<bool>> resume(EntryPtr entry, bool keep_memory, std::chrono::seconds time);
    /// Gone by then is fine.
    Task<Status> set_end(EntryPtr entry, WallTime end);

    struct Snapshot {
        std::string id; ///< what create takes as a template
        std::vector<std::string> names;
    };
    Task<Result<Snapshot>> snapshot(EntryPtr entry, std::string name);
    struct ListedSnapshot {
        Snapshot snapshot;
        std::string sandbox;
        WallTime created{};
    };
    Task<Result<std::vector<ListedSnapshot>>> snapshots(std::string tenant);
    /// Whether one of the tenant's has this name, with whatever tag.
    Task<Result<bool>> snapshot_named(std::string alias, std::string tenant);
    /// What a template's name stands for.
    struct Source {
        std::string snapshot;    ///< empty: the base template
        std::string template_id; ///< as clients are told it
        std::string alias;
        BuildDefaults defaults;
        std::optional<policy::Limits> limits; ///< of a template's sandboxes; nothing: as in the snapshot
    };
    Task<Result<Source>> source_of(std::string name, std::string tenant);
    /// What of the size that was asked for can be held here. The rest is told: clients are shown the
    /// machine's size.
    [[nodiscard]] policy::Limits limits_of(const Built& built) const;
    /// False: there is none.
    Task<Result<bool>> remove_snapshot(std::string id, std::string tenant);
    Task<Result<std::vector<Result<EntryPtr>>>> fork(EntryPtr entry, ForkRequest wish);

    /// Ends what is over, and looks at what the running ones use.
    Task<void> tick();
    /// Every stream of every sandbox ends.
    void leave();
    [[nodiscard]] bool leaving() const noexcept { return leaving_; }

    [[nodiscard]] SandboxView view(const Entry& entry) const;
    [[nodiscard]] gate::Ground& ground() noexcept { return ground_; }
    [[nodiscard]] ProcessNotes& notes() noexcept { return notes_; }
    /// The backend and handle of a usable one.
    Task<Result<Backend*>> backend(const Entry& entry);
    [[nodiscard]] static SandboxHandle handle(const Entry& entry) { return Lifecycle::handle(entry.record); }
    [[nodiscard]] WallTime now() const { return system_clock().now(); }
    Task<void> sample(EntryPtr entry);
    [[nodiscard]] Metric metric_of(const Entry& entry, const Samples::One& sample) const;

private:
    struct Held; ///< alone with an entry
    Task<Result<Held>> alone(EntryPtr entry);
    Task<Status> save(const Entry& entry);
    Task<Status> forget(const Entry& entry);
    /// The snapshot a template's name stands for; nothing: the base template.
    Task<Result<SnapshotRecord>> snapshot_of(std::string template_id, std::string tenant);
    Task<Status> start_work(EntryPtr entry);
    Task<Status> begin_work(EntryPtr entry);
    Task<Status> keep_origin(const Entry& entry);
    Task<BuildDefaults> defaults_from(std::string origin);
    Task<void> drop_origins();
    Task<Status> drop_replaced(SnapshotRecord newest, std::string tenant);
    Task<Status> make(EntryPtr entry, NewSandbox wish, std::string snapshot,
                      std::optional<policy::Limits> limits = std::nullopt);
    EntryPtr fresh(const NewSandbox& wish, const std::string& tenant);
    void cut(Entry& entry);
    Task<void> expire(EntryPtr entry);
    Task<void> sample_all();
    Task<void> reconcile(EntryPtr entry);

    gate::Ground& ground_;
    Templates& templates_;
    Volumes& volumes_;
    ProcessNotes notes_;
    gate::Documents documents_;
    gate::Documents origins_; ///< of snapshots whose sandboxes may be gone
    std::map<std::string, EntryPtr, std::less<>> entries_;
    std::set<std::string> expiring_;
    SteadyTime sampled_{};
    bool sampling_ = false;
    bool limits_memory_ = false; ///< can be held here
    bool limits_cpu_ = false;
    bool leaving_ = false;
};

} // namespace berth::e2b
