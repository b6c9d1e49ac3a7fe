#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/task.hpp"
#include "base/unique_fd.hpp"
#include "core/archive.hpp"
#include "core/capabilities.hpp"
#include "core/exec_event.hpp"
#include "core/exec_spec.hpp"
#include "core/file_entry.hpp"
#include "core/run_outcome.hpp"
#include "core/sandbox_spec.hpp"
#include "core/snapshot.hpp"
#include "core/state.hpp"

namespace berth {

/// How a backend finds a sandbox again: by our id, and by its own.
struct SandboxHandle {
    std::string sandbox; ///< "sbx_…"
    std::string native;  ///< container id, cloud id; what the backend itself calls it
    bool operator==(const SandboxHandle&) const = default;
};

/// Only Gone may lead to a replacement: one slow answer must not discard a sandbox.
enum class Health { Healthy, Unresponsive, Gone };

/// What every instance carries, so that any process finds it by listing what a backend has.
struct InstanceLabels {
    std::string key;
    std::string spec_hash;
    std::string exo_hash; ///< by which exo finds it; empty: exo could not have made it
    std::string owner;    ///< of the store that remembers it; one we do not know is never touched
    WallTime created{};
    std::uint64_t generation = 1;
    bool operator==(const InstanceLabels&) const = default;
};

/// An instance that a backend has, whether anybody remembers it or not.
struct Found {
    SandboxHandle sandbox;
    Health health = Health::Gone;
    State state =
        State::Lost; ///< Running, Paused or Stopped; Lost when it is gone; Creating while it is made
    InstanceLabels labels;
    std::chrono::milliseconds paused{0}; ///< in all, the present pause included
};

/// Told of what takes long: what is done, and the bytes of it where they are known. From any thread.
using MakeProgress = std::function<void(const std::string& what, std::uint64_t have, std::uint64_t of)>;

/// An instance to be made.
struct CreateRequest {
    SandboxSpec spec;
    InstanceLabels labels;
    std::optional<SnapshotSource> from; ///< instead of the template alone
    MakeProgress progress;              ///< may be empty

    CreateRequest(SandboxSpec what) : spec(std::move(what)) {} // NOLINT(*-explicit-*): the usual case
};

/// A stopped instance that runs again.
struct Started {
    std::optional<WallTime> unsynced_since; ///< the machine went down: what was written since may be damaged
    std::vector<std::string> notes;
};

/// One exec of an instance, running or ended.
struct ExecInfo {
    std::string id;
    bool running = false;
    std::optional<ExitStatus> status; ///< of one that ended
    std::uint64_t events = 0;
};

/// A change below a watched directory.
struct FileChange {
    enum class Kind { Created, Written, Removed, Renamed, Attributes, Overflow };
    Kind kind = Kind::Written;
    std::string path; ///< relative to the watched directory; empty for Overflow: look for yourself
    bool operator==(const FileChange&) const = default;
};

/// What a collection removed, or would.
struct Collected {
    std::vector<std::string> objects; ///< "layer lay_…"
    std::uint64_t bytes = 0;
};

/// How an exec ended, and the limits that struck meanwhile.
struct Ended {
    ExitStatus status;
    std::vector<std::string> struck;
};

/// What the execs of a sandbox use; a backend leaves out what it cannot tell.
struct Usage {
    std::optional<std::chrono::microseconds> cpu; ///< since its instance was made
    std::optional<Bytes> memory;
};

/// What a one-shot reads and who sees its events, in order.
struct RunStreams {
    std::string input; ///< all of it; then comes its end
    std::function<void(const ExecEvent&)> on_event;
};

/// Somewhere a sandbox can live. Stateless in what must survive: everything a Backend must remember
/// is in the store, so any daemon may pick up any sandbox after a crash. Waits have a deadline.
class Backend {
public:
    virtual ~Backend() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;
    [[nodiscard]] virtual Capabilities capabilities() const = 0;

    /// Idempotent by spec.id and generation: called again after a crash it finds the same instance. The
    /// same with another spec is a Conflict. A failure leaves nothing behind.
    virtual Task<Result<SandboxHandle>> create(CreateRequest request) = 0;
    /// Removing what is already gone is success.
    virtual Task<Status> destroy(SandboxHandle sandbox) = 0;
    /// Every instance carrying our labels, including ones nobody remembers.
    virtual Task<Result<std::vector<Found>>> scan() = 0;
    /// One of them. Gone is an answer; an error means that the backend could not be asked.
    virtual Task<Result<Found>> inspect(SandboxHandle sandbox) = 0;

    /// Starts a command; returns when it runs or could not be started. Its timeout is held by
    /// whoever follows it: see follow().
    virtual Task<Status> exec(SandboxHandle sandbox, ExecSpec spec) = 0;
    /// The events from a sequence number on: at least one, or none when the time is over. Go on at the
    /// last one's `sequence + 1`; after `Closed` nothing follows.
    virtual Task<Result<std::vector<ExecEvent>>> read_events(SandboxHandle sandbox, std::string exec,
                                                             std::uint64_t from, SteadyTime until) = 0;
    /// Nothing when it still runs at `until`.
    virtual Task<Result<std::optional<Ended>>> wait(SandboxHandle sandbox, std::string exec,
                                                    SteadyTime until) = 0;
    virtual Task<Status> signal(SandboxHandle sandbox, std::string exec, int signo) = 0;
    /// SIGKILL to everything the exec started.
    virtual Task<Status> kill(SandboxHandle sandbox, std::string exec) = 0;
    /// Bytes taken, fewer than given when the command does not read. The same write id again, after an
    /// answer was lost, writes nothing twice; ids of further writes grow.
    virtual Task<Result<std::size_t>> write_input(SandboxHandle sandbox, std::string exec,
                                                  std::uint64_t write_id, std::string bytes) = 0;
    virtual Task<Status> close_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id) = 0;
    virtual Task<Status> resize(SandboxHandle sandbox, std::string exec, TerminalSize size) = 0;
    /// Those of this instance, oldest first; also of a stopped one.
    virtual Task<Result<std::vector<ExecInfo>>> execs(SandboxHandle sandbox) = 0;
    /// What it wrote is on disk, and what a dead keeper left unfinished is finished: an exec that was lost
    /// ends with an unknown status.
    virtual Task<Status> settle_exec(SandboxHandle sandbox, std::string exec) = 0;

    /// All of a regular file; one larger than `limit` is Invalid.
    virtual Task<Result<std::string>> read_file(SandboxHandle sandbox, FilePath file, Bytes limit) = 0;
    /// Atomic: the old contents or the new.
    virtual Task<Status> write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                                    std::optional<unsigned> mode) = 0;
    virtual Task<Result<std::vector<FileEntry>>> list_files(SandboxHandle sandbox, FilePath directory) = 0;
    virtual Task<Result<FileEntry>> stat_file(SandboxHandle sandbox, FilePath file) = 0;
    virtual Task<Status> make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents) = 0;
    virtual Task<Status> move_file(SandboxHandle sandbox, FilePath from, std::string to) = 0;
    virtual Task<Status> remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree) = 0;

    /// For contents too large for a string: a descriptor at the beginning of a regular file. By default
    /// read_file(), up to 64 MiB.
    virtual Task<Result<UniqueFd>> open_file(SandboxHandle sandbox, FilePath file);
    /// Truncates and writes the file the path leads to, or makes it. By default write_file(), up to 64 MiB.
    virtual Task<Status> fill_file(SandboxHandle sandbox, FilePath file, FileContents contents);
    /// The number of an exec's process inside, while it runs. By default Unsupported.
    virtual Task<Result<int>> exec_pid(SandboxHandle sandbox, std::string exec);
    /// By default nothing is told.
    virtual Task<Result<Usage>> usage(SandboxHandle sandbox);

    // Optional: a backend that does not claim the operation answers Unsupported, naming both.

    /// TERM to everything inside, KILL after `grace`; the files stay. Stopped already is success.
    virtual Task<Status> stop(SandboxHandle sandbox, std::chrono::milliseconds grace);
    /// Running already is success.
    virtual Task<Result<Started>> start(SandboxHandle sandbox);
    virtual Task<Status> pause(SandboxHandle sandbox);
    virtual Task<Status> resume(SandboxHandle sandbox);
    /// Of a running, paused or stopped instance.
    virtual Task<Result<SnapshotTaken>> snapshot(SandboxHandle sandbox, SnapshotRequest request);
    /// Frees what the backend keeps for it outside of its directory. Already gone is success.
    virtual Task<Status> drop_snapshot(SnapshotSource snapshot);
    /// A connected stream socket to a port of the sandbox's own loopback.
    virtual Task<Result<UniqueFd>> dial(SandboxHandle sandbox, std::uint16_t port);
    /// Changes below `directory`, at any depth: at least one, or none at the deadline. The first call for a
    /// `watch` begins it, further calls go on without a gap; unwatch() ends it.
    virtual Task<Result<std::vector<FileChange>>> watch(SandboxHandle sandbox, std::string watch,
                                                        FilePath directory, SteadyTime until);
    virtual Task<Status> unwatch(std::string watch);
    /// A directory and all below it as a tar, to `sink`.
    virtual Task<Status> read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                                      ByteSink sink);
    /// Unpacks a tar below a directory that exists. Everything is checked before anything is written.
    virtual Task<Status> write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                                       ArchiveLimits limits);
    /// Tells a backend with timeouts of its own that the sandbox is in use.
    virtual Task<Status> keep_alive(SandboxHandle sandbox, std::chrono::seconds time);
    /// Borrows an instance somebody else made: its canonical handle.
    virtual Task<Result<SandboxHandle>> attach(std::string native);
    /// The instance that another program made for this key with an equal spec is ours from now on; nothing:
    /// there is none. By default there never is.
    virtual Task<Result<std::optional<SandboxHandle>>> adopt(CreateRequest request);
    /// Lets an instance go that somebody else made: what we put into it is gone, the rest as it was. One of
    /// our own is left alone.
    virtual Task<Status> release(SandboxHandle sandbox);
    /// Removes parts that no instance and no snapshot below `snapshots` uses any more.
    virtual Task<Result<Collected>> collect(std::string snapshots, bool dry_run);

    /// One command in a throw-away sandbox. By default: create, exec, follow, destroy.
    virtual Task<Result<RunOutcome>> run(SandboxSpec sandbox, ExecSpec exec, RunStreams streams);

    /// Feeds and reads a started exec until its streams are closed, and kills it when its timeout
    /// is over; its true end is told. The time during which the sandbox is paused does not count.
    Task<Result<RunOutcome>> follow(SandboxHandle sandbox, ExecSpec exec, RunStreams streams);
};

} // namespace berth
