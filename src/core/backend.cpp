#include "core/backend.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "core/attends.hpp"
#include "core/holds_time.hpp"
#include "core/paused_time.hpp"
#include "core/struck.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr auto kReadAtOnce = 30s;    // a wait of one read; the loop goes on
constexpr auto kFeedInterval = 10ms; // a command that does not read its input is asked again
constexpr auto kDeathPatience = 10s; // from SIGKILL to the kernel's word
constexpr auto kLinger = 1s;         // a grandchild may hold the streams after the exit
constexpr std::size_t kFeed = 32 * 1024;
constexpr Bytes kLargestByDefault = 64_MiB;
constexpr auto kPausedInterval = 100ms; // a paused sandbox is asked whether it still is

SteadyTime now() { return system_clock().steady(); }

/// What is left of a command's input, and when it is asked to take more.
struct Feed {
    std::string bytes;
    std::size_t offset = 0;
    std::uint64_t write_id = 1;
    bool open = false;
};

Task<Status> feed(Backend& backend, const SandboxHandle& sandbox, const std::string& exec, Feed& input)
{
    while (input.open) {
        if (input.offset == input.bytes.size()) {
            auto closed = co_await backend.close_input(sandbox, exec, input.write_id++);
            input.open = false;
            co_return closed;
        }
        std::string piece = input.bytes.substr(input.offset, kFeed);
        const std::size_t given = piece.size();
        BERTH_CO_TRY(const auto taken,
                     co_await backend.write_input(sandbox, exec, input.write_id++, std::move(piece)));
        input.offset += std::min(taken, given);
        if (taken < given) co_return Status{};
    }
    co_return Status{};
}

} // namespace

Task<Result<RunOutcome>> Backend::follow(SandboxHandle sandbox, ExecSpec exec, RunStreams streams)
{
    RunOutcome outcome;
    Feed input{.bytes = std::move(streams.input), .open = exec.input == ExecSpec::Stdin::Open};
    SteadyTime deadline = exec.timeout ? now() + *exec.timeout + keepers_turn(*this) : SteadyTime::max();
    SteadyTime look_at = deadline; // later while it is paused
    PausedTime paused = co_await PausedTime::begin(*this, sandbox, exec.timeout.has_value());
    co_await attend(*this, sandbox, exec.id);
    std::uint64_t position = 0;
    bool exited = false;
    bool killed = false;
    bool closed = false;
    while (!closed) {
        // Whoever does not read its input to the end has a right to; only its own end counts.
        if (auto fed = co_await feed(*this, sandbox, exec.id, input); !fed) input.open = false;
        const auto until = std::min(look_at, now() + (input.open ? SteadyTime::duration(kFeedInterval)
                                                                 : SteadyTime::duration(kReadAtOnce)));
        BERTH_CO_TRY(const auto events, co_await read_events(sandbox, exec.id, position, until));
        for (const auto& event : events) {
            position = event.sequence + 1;
            outcome.dropped += event.gap_bytes;
            if (streams.on_event) streams.on_event(event);
            if (event.kind == ExecEvent::Kind::Exit) {
                outcome.status = event.status;
                if (ended_by_itself(event.status))
                    outcome.timed_out = false;
                else if (exec.timeout && !outcome.timed_out)
                    outcome.timed_out = co_await ended_by_time(*this, sandbox, exec.id, event.status);
                exited = true;
                deadline = look_at = now() + kLinger;
                input.open = false;
            }
            closed = closed || event.kind == ExecEvent::Kind::Closed;
        }
        if (closed || now() < look_at) continue;
        if (exited || killed) break;
        const auto look = co_await paused.look(*this, sandbox);
        deadline += look.more;
        look_at = look.paused ? std::max(deadline, now() + kPausedInterval) : deadline;
        if (now() < look_at) continue;
        auto ended = co_await kill(sandbox, exec.id);
        // One that has ended by now, by its keeper or by itself, says which with its exit.
        if (!ended && ended.error().code != Code::NotFound)
            co_return std::unexpected(std::move(ended).error().while_doing("ending " + exec.id));
        killed = true;
        outcome.timed_out = ended.has_value();
        deadline = look_at = now() + kDeathPatience;
    }
    BERTH_CO_TRY(auto ended, co_await wait(sandbox, exec.id, now()));
    if (ended && !exited) { // of a log that nobody could read to its end in time
        outcome.status = ended->status;
        if (exec.timeout && !outcome.timed_out)
            outcome.timed_out = co_await ended_by_time(*this, sandbox, exec.id, ended->status);
    }
    if (ended) outcome.struck = std::move(ended->struck);
    co_return outcome;
}

Task<Result<RunOutcome>> Backend::run(SandboxSpec sandbox, ExecSpec exec, RunStreams streams)
{
    const auto& wall = sandbox.policy.limits.wall_time;
    const bool wall_first = wall && (!exec.timeout || *wall < *exec.timeout);
    if (wall_first) exec.timeout = wall;
    const std::string limit = wall_first ? struck::by_wall_time(*wall) : std::string{};
    BERTH_CO_TRY(const auto handle, co_await create(std::move(sandbox)));
    Result<RunOutcome> outcome = fail(Code::Internal, "exec {} was not followed", exec.id);
    if (auto started = co_await this->exec(handle, exec); started)
        outcome = co_await follow(handle, std::move(exec), std::move(streams));
    else
        outcome = std::unexpected(std::move(started).error());
    if (outcome && outcome->timed_out && wall_first) {
        outcome->by_wall_time = true;
        outcome->struck.push_back(limit);
    }
    // The first failure is the one to tell; what could not be removed is found by scan().
    auto gone = co_await destroy(handle);
    if (outcome && !gone) co_return std::unexpected(std::move(gone).error());
    co_return outcome;
}

Task<Status> Backend::stop(SandboxHandle, std::chrono::milliseconds)
{
    co_return unsupported(Operation::Stop, name());
}

Task<Result<Started>> Backend::start(SandboxHandle) { co_return unsupported(Operation::Stop, name()); }
Task<Status> Backend::pause(SandboxHandle) { co_return unsupported(Operation::Pause, name()); }
Task<Status> Backend::resume(SandboxHandle) { co_return unsupported(Operation::Pause, name()); }

Task<Result<SnapshotTaken>> Backend::snapshot(SandboxHandle, SnapshotRequest)
{
    co_return unsupported(Operation::Snapshot, name());
}

Task<Status> Backend::drop_snapshot(SnapshotSource) { co_return Status{}; }

Task<Result<UniqueFd>> Backend::dial(SandboxHandle, std::uint16_t)
{
    co_return unsupported(Operation::Ports, name());
}

Task<Result<std::vector<FileChange>>> Backend::watch(SandboxHandle, std::string, FilePath, SteadyTime)
{
    co_return unsupported(Operation::Watch, name());
}

Task<Status> Backend::unwatch(std::string) { co_return Status{}; }

Task<Status> Backend::read_archive(SandboxHandle, FilePath, ArchiveOptions, ByteSink)
{
    co_return unsupported(Operation::Archive, name());
}

Task<Status> Backend::write_archive(SandboxHandle, FilePath, ByteSource, ArchiveLimits)
{
    co_return unsupported(Operation::Archive, name());
}

Task<Status> Backend::keep_alive(SandboxHandle, std::chrono::seconds) { co_return Status{}; }

Task<Result<SandboxHandle>> Backend::attach(std::string) { co_return unsupported(Operation::Attach, name()); }

Task<Result<std::optional<SandboxHandle>>> Backend::adopt(CreateRequest)
{
    co_return std::optional<SandboxHandle>{};
}

Task<Status> Backend::release(SandboxHandle) { co_return Status{}; }

Task<Result<Collected>> Backend::collect(std::string, bool) { co_return Collected{}; }

Task<Result<UniqueFd>> Backend::open_file(SandboxHandle sandbox, FilePath file)
{
    BERTH_CO_TRY(const auto bytes,
                 co_await read_file(std::move(sandbox), std::move(file), kLargestByDefault));
    UniqueFd memory(::memfd_create("file", MFD_CLOEXEC));
    if (!memory) co_return fail_errno("making a file in memory");
    BERTH_CO_CHECK(write_all(memory.get(), bytes));
    if (::lseek(memory.get(), 0, SEEK_SET) != 0) co_return fail_errno("reading a file in memory");
    co_return memory;
}

Task<Status> Backend::fill_file(SandboxHandle sandbox, FilePath file, FileContents contents)
{
    const auto limit = std::min(contents.limit, kLargestByDefault);
    BERTH_CO_TRY(auto bytes, read_to_end(contents.source.get(), limit, printable(file.path)));
    co_return co_await write_file(std::move(sandbox), std::move(file), std::move(bytes), contents.mode);
}

Task<Result<int>> Backend::exec_pid(SandboxHandle, std::string)
{
    co_return fail(Code::Unsupported, "backend {} does not tell the numbers of processes", name());
}

Task<Result<Usage>> Backend::usage(SandboxHandle) { co_return Usage{}; }

} // namespace berth
