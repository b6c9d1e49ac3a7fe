#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/docker/changes.hpp"
#include "backend/docker/life.hpp"
#include "backend/docker/sandbox.hpp"
#include "core/registry.hpp"
#include "core/tells_borrowed.hpp"
#include "core/tells_changes.hpp"
#include "core/tells_image.hpp"
#include "core/tells_user.hpp"
#include "keeping/held.hpp"
#include "keeping/kept_backend.hpp"

namespace berth::docker {

/// Containers of an engine, Docker's or Podman's, with a keeper of ours as their first process. Opening it
/// asks nobody: an engine that is not there is told by the first operation that needs one.
class DockerBackend final : public keeping::KeptBackend,
                            public TellsChanges,
                            public TellsImage,
                            public TellsBorrowed,
                            public TellsUser {
public:
    [[nodiscard]] static Result<std::unique_ptr<Backend>> open(const BackendOptions& options);

    [[nodiscard]] std::string_view name() const override { return "docker"; }
    [[nodiscard]] Capabilities capabilities() const override;

    Task<Result<SandboxHandle>> create(CreateRequest request) override;
    Task<Status> destroy(SandboxHandle sandbox) override;
    Task<Result<std::vector<Found>>> scan() override;
    Task<Result<Found>> inspect(SandboxHandle sandbox) override;
    Task<Status> stop(SandboxHandle sandbox, std::chrono::milliseconds grace) override;
    Task<Result<Started>> start(SandboxHandle sandbox) override;
    Task<Status> pause(SandboxHandle sandbox) override;
    Task<Status> resume(SandboxHandle sandbox) override;
    Task<Result<SnapshotTaken>> snapshot(SandboxHandle sandbox, SnapshotRequest request) override;
    Task<Status> drop_snapshot(SnapshotSource snapshot) override;
    Task<Result<SandboxHandle>> attach(std::string native) override;
    Task<Result<std::optional<SandboxHandle>>> adopt(CreateRequest request) override;
    Task<Status> release(SandboxHandle sandbox) override;
    Task<Result<Borrowed>> borrowed(SandboxHandle sandbox) override;
    Task<Result<std::string>> runs_as(SandboxHandle sandbox) override;
    Task<Result<Usage>> usage(SandboxHandle sandbox) override;
    Task<Result<std::string>> workspace(SandboxHandle sandbox) override;
    Task<Result<ImageDefaults>> image_defaults(SandboxHandle sandbox) override;
    Task<Result<std::vector<SandboxHandle>>> changes(SteadyTime until) override;
    /// Refuses what would leave a volume of the engine out without a word.
    Task<Status> read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                              ByteSink sink) override;
    Task<Result<Collected>> collect(std::string snapshots, bool dry_run) override;

    Task<Status> exec(SandboxHandle sandbox, ExecSpec spec) override;
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

private:
    DockerBackend(InstanceDirs dirs, BlockingPool& pool, std::unique_ptr<Engine> engine);

    [[nodiscard]] std::optional<EngineFacts> facts() const;
    [[nodiscard]] Where where() const { return {.dirs = dirs_, .engine = *engine_}; }

    /// `work(Sandbox&)` on the pool, alone with the sandbox.
    template <class F> auto with(SandboxHandle handle, F work) -> Task<std::invoke_result_t<F, Sandbox&>>;

    Task<Result<sys::SandboxFiles>> files_of(SandboxHandle sandbox, std::string user) override;
    Task<Result<sys::SandboxFiles>> files_to_watch(SandboxHandle sandbox, std::string user,
                                                   UniqueFd& keeper) override;
    Task<Result<keeping::Trees>> trees_of(SandboxHandle sandbox, std::string user) override;
    Task<Result<UniqueFd>> dial_by_keeper(SandboxHandle sandbox, std::uint16_t port, int ip_version) override;
    Task<Result<keeping::ExecFollower>> follower_of(SandboxHandle sandbox, std::string exec,
                                                    std::uint64_t from) override;
    [[nodiscard]] int spool_directory() const override { return dirs_.fd(); }

    InstanceDirs dirs_;
    std::unique_ptr<Engine> engine_;
    mutable std::mutex mutex_; ///< of what follows; taken last
    mutable std::optional<EngineFacts> facts_;
    mutable SteadyTime ask_again_{};
    keeping::Held<Sandbox> held_;
    Changes changes_; ///< of the one who listens
};

} // namespace berth::docker
