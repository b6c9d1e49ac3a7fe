#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "backend/docker/changes.hpp"
#include "backend/docker/life.hpp"
#include "base/blocking_pool.hpp"
#include "core/moves_over.hpp"
#include "core/registry.hpp"
#include "core/tells_changes.hpp"
#include "core/tells_image.hpp"
#include "core/tells_user.hpp"
#include "core/tells_workspace.hpp"
#include "keeping/relayed_execs.hpp"

namespace berth::scripted {
class Files;
}

namespace berth::docker {

/// Containers of an engine on another machine. Everything goes through the Engine API: nothing of this
/// machine is shown in them, and nobody of ours enters them. What needs that is refused by name.
class FarBackend final : public Backend,
                         public TellsWorkspace,
                         public TellsChanges,
                         public TellsImage,
                         public TellsUser,
                         public MovesOver {
public:
    FarBackend(InstanceDirs dirs, BlockingPool& pool, std::unique_ptr<Engine> engine);

    [[nodiscard]] std::string_view name() const override { return "docker"; }
    [[nodiscard]] Capabilities capabilities() const override;

    Task<Result<SandboxHandle>> create(CreateRequest request) override;
    Task<Status> destroy(SandboxHandle sandbox) override;
    Task<Result<std::vector<Found>>> scan() override;
    Task<Result<Found>> inspect(SandboxHandle sandbox) override;
    Task<Status> stop(SandboxHandle sandbox, std::chrono::milliseconds grace) override;
    Task<Result<Started>> start(SandboxHandle sandbox) override;
    Task<Result<SnapshotTaken>> snapshot(SandboxHandle sandbox, SnapshotRequest request) override;
    Task<Status> drop_snapshot(SnapshotSource snapshot) override;
    Task<Result<Usage>> usage(SandboxHandle sandbox) override;
    Task<Result<std::string>> workspace(SandboxHandle sandbox) override;
    Task<Result<ImageDefaults>> image_defaults(SandboxHandle sandbox) override;
    Task<Result<std::string>> runs_as(SandboxHandle sandbox) override;
    Task<Result<std::vector<SandboxHandle>>> changes(SteadyTime until) override;
    Task<Result<Collected>> collect(std::string snapshots, bool dry_run) override;

    Task<Status> exec(SandboxHandle sandbox, ExecSpec spec) override;
    Task<Result<std::vector<ExecEvent>>> read_events(SandboxHandle sandbox, std::string exec,
                                                     std::uint64_t from, SteadyTime until) override;
    Task<Result<std::optional<Ended>>> wait(SandboxHandle sandbox, std::string exec,
                                            SteadyTime until) override;
    Task<Status> signal(SandboxHandle sandbox, std::string exec, int signo) override;
    Task<Status> kill(SandboxHandle sandbox, std::string exec) override;
    Task<Result<std::size_t>> write_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id,
                                          std::string bytes) override;
    Task<Status> close_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id) override;
    Task<Status> resize(SandboxHandle sandbox, std::string exec, TerminalSize size) override;
    Task<Result<std::vector<ExecInfo>>> execs(SandboxHandle sandbox) override;
    Task<Status> settle_exec(SandboxHandle sandbox, std::string exec) override;
    Task<Result<int>> exec_pid(SandboxHandle sandbox, std::string exec) override;

    Task<Result<std::string>> read_file(SandboxHandle sandbox, FilePath file, Bytes limit) override;
    Task<Status> write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                            std::optional<unsigned> mode) override;
    Task<Result<std::vector<FileEntry>>> list_files(SandboxHandle sandbox, FilePath directory) override;
    Task<Result<FileEntry>> stat_file(SandboxHandle sandbox, FilePath file) override;
    Task<Status> make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents) override;
    Task<Status> move_file(SandboxHandle sandbox, FilePath from, std::string to) override;
    Task<Status> move_over(SandboxHandle sandbox, FilePath from, std::string to) override;
    Task<Status> remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree) override;
    Task<Result<UniqueFd>> open_file(SandboxHandle sandbox, FilePath file) override;
    Task<Status> fill_file(SandboxHandle sandbox, FilePath file, FileContents contents) override;
    Task<Status> read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                              ByteSink sink) override;
    Task<Status> write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                               ArchiveLimits limits) override;

private:
    [[nodiscard]] Where where() const { return {.dirs = dirs_, .engine = *engine_}; }
    /// `work(const Instance&)` on the pool, for one of this engine.
    template <class F>
    auto with(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const Instance&>>;
    /// `work(scripted::Files&)` on the pool.
    template <class F>
    auto with_files(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, scripted::Files&>>;
    /// `work(native)` on the pool, for what is known here alone.
    template <class F>
    auto here(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const std::string&>>;
    [[nodiscard]] Result<Instance> find(const std::string& native) const;

    InstanceDirs dirs_;
    BlockingPool& pool_;
    std::unique_ptr<Engine> engine_;
    mutable std::mutex mutex_; ///< of what follows
    mutable std::optional<EngineFacts> facts_;
    mutable SteadyTime ask_again_{};
    Changes changes_; ///< of the one who listens
    keeping::RelayedExecs execs_;
};

} // namespace berth::docker
