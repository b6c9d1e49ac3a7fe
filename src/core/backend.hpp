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
#include "core/capabilities.hpp"
#include "core/exec_event.hpp"
#include "core/exec_spec.hpp"
#include "core/file_entry.hpp"
#include "core/run_outcome.hpp"
#include "core/sandbox_spec.hpp"

namespace berth {

/// How a backend finds a sandbox again: by our id, and by its own.
struct SandboxHandle {
    std::string sandbox; ///< "sbx_…"
    std::string native;  ///< container id, cloud id; what the backend itself calls it
    bool operator==(const SandboxHandle&) const = default;
};

/// Only Gone may lead to a replacement: one slow answer must not discard a sandbox.
enum class Health { Healthy, Unresponsive, Gone };

/// A sandbox that a backend has, whether anybody remembers it or not.
struct Found {
    SandboxHandle sandbox;
    Health health = Health::Gone;
};

/// How an exec ended, and the limits that struck meanwhile.
struct Ended {
    ExitStatus status;
    std::vector<std::string> struck;
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

    /// Idempotent by spec.id: called again after a crash it finds the same sandbox. The same id
    /// with another spec is a Conflict. A failure leaves nothing behind.
    virtual Task<Result<SandboxHandle>> create(SandboxSpec spec) = 0;
    /// Removing what is already gone is success.
    virtual Task<Status> destroy(SandboxHandle sandbox) = 0;
    /// Every sandbox carrying our label, including ones nobody remembers.
    virtual Task<Result<std::vector<Found>>> scan() = 0;

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

    // Optional: a backend that does not claim the operation answers Unsupported, naming both.
    virtual Task<Status> stop(SandboxHandle sandbox);
    virtual Task<Status> start(SandboxHandle sandbox);
    virtual Task<Status> pause(SandboxHandle sandbox);
    virtual Task<Status> resume(SandboxHandle sandbox);
    /// Under an id of the caller's ("snap_…"), so that asking again finds the same.
    virtual Task<Status> snapshot(SandboxHandle sandbox, std::string snapshot);
    virtual Task<Result<SandboxHandle>> fork(SandboxHandle sandbox, SandboxSpec spec);
    /// A connected stream socket to a port of the sandbox's own loopback.
    virtual Task<Result<UniqueFd>> dial(SandboxHandle sandbox, std::uint16_t port);
    /// Paths below `directory` that changed, until the deadline.
    virtual Task<Result<std::vector<std::string>>> watch(SandboxHandle sandbox, FilePath directory,
                                                         SteadyTime until);

    /// One command in a throw-away sandbox. By default: create, exec, follow, destroy.
    virtual Task<Result<RunOutcome>> run(SandboxSpec sandbox, ExecSpec exec, RunStreams streams);

    /// Feeds and reads a started exec until its streams are closed, and kills it when its timeout
    /// is over; its true end is told.
    Task<Result<RunOutcome>> follow(SandboxHandle sandbox, ExecSpec exec, RunStreams streams);
};

} // namespace berth
