#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/e2b/exec_input.hpp"
#include "backend/e2b/keep_alive.hpp"
#include "backend/e2b/running_exec.hpp"
#include "backend/e2b/watch.hpp"
#include "core/moves_over.hpp"
#include "core/registry.hpp"
#include "keeping/remote_state.hpp"

namespace berth::e2b_client {

/// Sandboxes of E2B's cloud, or of a berth server, which speaks the same. Opening it asks nobody: a missing
/// key and a server that is not there are told by the first operation that needs them.
class E2bBackend final : public Backend, public MovesOver {
public:
    [[nodiscard]] static Result<std::unique_ptr<Backend>> open(const BackendOptions& options);
    ~E2bBackend() override;

    [[nodiscard]] std::string_view name() const override { return "e2b"; }
    [[nodiscard]] Capabilities capabilities() const override;

    Task<Result<SandboxHandle>> create(CreateRequest request) override;
    Task<Status> destroy(SandboxHandle sandbox) override;
    Task<Result<std::vector<Found>>> scan() override;
    Task<Result<Found>> inspect(SandboxHandle sandbox) override;
    Task<Status> stop(SandboxHandle sandbox, std::chrono::milliseconds grace) override;
    Task<Result<Started>> start(SandboxHandle sandbox) override;
    Task<Result<SnapshotTaken>> snapshot(SandboxHandle sandbox, SnapshotRequest request) override;
    Task<Status> drop_snapshot(SnapshotSource snapshot) override;
    Task<Status> keep_alive(SandboxHandle sandbox, std::chrono::seconds time) override;

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
    Task<Result<std::vector<FileChange>>> watch(SandboxHandle sandbox, std::string watch, FilePath directory,
                                                SteadyTime until) override;
    Task<Status> unwatch(std::string watch) override;
    Task<Status> read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                              ByteSink sink) override;
    Task<Status> write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                               ArchiveLimits limits) override;

private:
    using RunningPtr = std::shared_ptr<RunningExec>;

    E2bBackend(keeping::RemoteState state, BlockingPool& pool, Result<Config> config);

    /// Or why there is none.
    [[nodiscard]] Result<Cloud*> cloud();
    /// `work(Cloud&, id)` on the pool.
    template <class F>
    auto with(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, Cloud&, const std::string&>>;

    Result<SandboxHandle> make(Cloud& cloud, const CreateRequest& request);
    Status settle_new(Cloud& cloud, const CreateRequest& request, const e2b::SandboxView& made);
    Status stop_one(Cloud& cloud, const std::string& id, std::chrono::milliseconds grace);

    Status begin_exec(Cloud& cloud, const std::string& id, const ExecSpec& spec);
    /// The exec's log, and whoever writes it: one of ours, or somebody else's, or ours from now on.
    [[nodiscard]] Result<keeping::ExecLog> attend(Cloud& cloud, const std::string& id,
                                                  const std::string& exec, RunningPtr& ours);
    [[nodiscard]] Result<std::optional<ExitStatus>> ended(const std::string& id, const std::string& exec);
    [[nodiscard]] Result<std::shared_ptr<ExecInput>> input_of(Cloud& cloud, const std::string& id,
                                                              const std::string& exec);
    Status send_signal(Cloud& cloud, const std::string& id, const std::string& exec, int signo);
    Status kill_tree(Cloud& cloud, const std::string& id, const std::string& exec);
    void let_go(const std::string& id);

    keeping::RemoteState state_;
    BlockingPool& pool_;
    Status unusable_;
    std::unique_ptr<Cloud> cloud_;
    std::unique_ptr<KeepAlive> keep_alive_;
    std::mutex mutex_; ///< of what follows; taken last
    // Shared: a call under way keeps what a destroy beside it takes out of the map.
    std::map<std::string, RunningPtr> running_;                ///< by exec
    std::map<std::string, std::shared_ptr<ExecInput>> inputs_; ///< by exec
    std::map<std::string, std::shared_ptr<Watch>> watches_;    ///< by the caller's name
};

template <class F>
auto E2bBackend::with(SandboxHandle sandbox, F work)
    -> Task<std::invoke_result_t<F, Cloud&, const std::string&>>
{
    using Answer = std::invoke_result_t<F, Cloud&, const std::string&>;
    co_return co_await pool_.call([&]() -> Answer {
        BERTH_TRY(auto* const cloud, this->cloud());
        BERTH_TRY(const auto id, cloud->id_of(sandbox));
        return work(*cloud, id);
    });
}

} // namespace berth::e2b_client
