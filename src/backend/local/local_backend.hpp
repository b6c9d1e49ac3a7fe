#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/local/execs_ahead.hpp"
#include "backend/local/parked.hpp"
#include "backend/local/sandbox.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/state_dir.hpp"
#include "base/blocking_pool.hpp"
#include "core/blocking_exec.hpp"
#include "core/measures.hpp"
#include "core/parking.hpp"
#include "core/registry.hpp"
#include "core/tells_image.hpp"
#include "core/tells_refusals.hpp"
#include "core/weighs_snapshots.hpp"
#include "keeping/held.hpp"
#include "keeping/kept_backend.hpp"

namespace berth::local {

/// Sandboxes of this machine's kernel, behind the interface every backend has. Those this process works
/// with are held open in it, until their keeper is gone: somebody else may stop, start or destroy them at
/// any time. Letting go of the backend lets them live on. What blocks runs on the
/// pool; a wait for output holds no thread of it. Outlives its tasks.
class LocalBackend final : public KeptBackend,
                           public Parking,
                           public BlockingExec,
                           public TellsRefusals,
                           public WeighsSnapshots,
                           public TellsImage,
                           public Measures {
public:
    [[nodiscard]] static Result<std::unique_ptr<Backend>> open(const BackendOptions& options);

    [[nodiscard]] std::string_view name() const override { return "local"; }
    [[nodiscard]] Capabilities capabilities() const override { return capabilities_; }

    Task<Result<SandboxHandle>> create(CreateRequest request) override;
    Task<Status> destroy(SandboxHandle sandbox) override;
    Task<Result<std::vector<Found>>> scan() override;
    Task<Result<Found>> inspect(SandboxHandle sandbox) override;
    Task<Status> stop(SandboxHandle sandbox, std::chrono::milliseconds grace) override;
    Task<Result<Started>> start(SandboxHandle sandbox) override;
    Task<Result<SnapshotTaken>> snapshot(SandboxHandle sandbox, SnapshotRequest request) override;
    Task<Status> drop_snapshot(SnapshotSource snapshot) override;
    Task<Result<std::uint64_t>> weigh(SnapshotSource snapshot) override;
    Task<Result<Collected>> collect(std::string snapshots, bool dry_run) override;

    Task<Status> exec(SandboxHandle sandbox, ExecSpec spec) override;
    Status exec_now(const SandboxHandle& sandbox, const ExecSpec& spec, Reader reader) override;
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
    Task<bool> exec_refused(SandboxHandle sandbox, std::string exec) override;
    Task<Result<Usage>> usage(SandboxHandle sandbox) override;
    Task<Result<Measured>> measure(SandboxHandle sandbox) override;
    Task<Result<std::string>> workspace(SandboxHandle sandbox) override;
    Task<Result<ImageDefaults>> image_defaults(SandboxHandle sandbox) override;

    Task<Status> pause(SandboxHandle sandbox) override;
    Task<Status> resume(SandboxHandle sandbox) override;

    Task<Status> park(CreateRequest request) override;
    Task<Status> clear_parked() override;

private:
    using Place = keeping::Held<Sandbox>::Place;

    LocalBackend(StateDir state, BlockingPool& pool, Capabilities capabilities)
        : KeptBackend(pool), state_(std::move(state)), capabilities_(std::move(capabilities))
    {
    }

    [[nodiscard]] Result<SandboxHandle> make(const CreateRequest& request);
    [[nodiscard]] Result<bool> make_at(Place& place, const CreateRequest& request, const std::string& native);
    [[nodiscard]] Status remove(const std::string& native);
    [[nodiscard]] static Sandbox::Options options_of(const CreateRequest& request);
    [[nodiscard]] std::optional<Parked> take_parked(const std::string& native);
    [[nodiscard]] static std::optional<Sandbox> claim(Parked parked, const CreateRequest& request);

    /// `work(Sandbox&)` on the pool, alone with the sandbox. Conflict when it is stopped.
    template <class F> auto with(SandboxHandle handle, F work) -> Task<std::invoke_result_t<F, Sandbox&>>;
    /// The same on the thread that asks.
    template <class F>
    auto with_now(const SandboxHandle& handle, F work) -> std::invoke_result_t<F, Sandbox&>;
    /// Of one that is open in this process and that nobody is about to end.
    void with_held(const std::string& native, void (Sandbox::*work)());
    Task<Result<sys::SandboxFiles>> files_of(SandboxHandle sandbox, std::string user) override;
    Task<Result<sys::SandboxFiles>> files_to_watch(SandboxHandle sandbox, std::string user,
                                                   UniqueFd& keeper) override;
    Task<Result<Trees>> trees_of(SandboxHandle sandbox, std::string user) override;
    Task<Result<image::ReadIds>> ids_of(SandboxHandle sandbox) override;
    Task<Result<UniqueFd>> dial_by_keeper(SandboxHandle sandbox, std::uint16_t port, int ip_version) override;
    Task<Result<ExecFollower>> follower_of(SandboxHandle sandbox, std::string exec,
                                           std::uint64_t from) override;
    void note_pid(const std::string& exec, const Result<int>& pid);
    Task<void> tidy_up(SandboxHandle sandbox, std::string exec, ExecFollower& follower);
    [[nodiscard]] int spool_directory() const override { return state_.fd(); }

    StateDir state_;
    Capabilities capabilities_;
    keeping::Held<Sandbox> held_;
    std::mutex pids_mutex_;
    std::map<std::string, int> pids_; ///< of the latest execs: whoever asks for a number asks at once
    std::mutex parked_mutex_;
    std::map<std::string, Parked> parked_; ///< by native name
    /// Ends before what it works with.
    ExecsAhead ahead_{[this](const std::string& native) { with_held(native, &Sandbox::make_next); },
                      [this](const std::string& native) { with_held(native, &Sandbox::drop_ahead); }};
};

} // namespace berth::local
