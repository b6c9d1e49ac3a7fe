#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/exec_server/ground.hpp"
#include "backend/exec_server/proofs.hpp"
#include "backend/exec_server/record.hpp"
#include "backend/exec_server/running_exec.hpp"
#include "core/moves_over.hpp"
#include "core/registry.hpp"
#include "core/terrain.hpp"
#include "keeping/native.hpp"
#include "keeping/relayed_execs.hpp"
#include "keeping/remote_state.hpp"

namespace berth::scripted {
class Files;
}

namespace berth::exec_server {

/// A path as it is called on the server's machine: a sandbox's home is its workspace there.
[[nodiscard]] std::string there(const Layout& layout, const std::string& path);

/// Sandboxes on another machine, by whatever speaks Codex's exec-server protocol there: Codex's own server,
/// or a berth. A sandbox is a directory there and a policy; its policy goes with every call. Opening it asks
/// nobody: a missing address and a server that is not there are told by the first operation that needs them.
class ExecServerBackend final : public Backend, public MovesOver, public TellsTerrain {
public:
    [[nodiscard]] static Result<std::unique_ptr<Backend>> open(const BackendOptions& options);
    ~ExecServerBackend() override;

    [[nodiscard]] std::string_view name() const override { return "exec-server"; }
    [[nodiscard]] Capabilities capabilities() const override;

    Task<Result<SandboxHandle>> create(CreateRequest request) override;
    Task<Status> destroy(SandboxHandle sandbox) override;
    Task<Result<std::vector<Found>>> scan() override;
    Task<Result<Found>> inspect(SandboxHandle sandbox) override;

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
    Task<Result<Terrain>> terrain(SandboxHandle sandbox) override;

private:
    /// A sandbox that is there.
    struct Instance {
        std::string native;
        Layout layout;
        Record record;
        policy::Policy around{}; ///< of the sandbox, where the record's policy is narrower: in a trial
        std::string trial{};     ///< the word of a trial; empty: a sandbox
    };

    ExecServerBackend(std::string data, BlockingPool& pool, Result<Config> config);

    /// Or why there is none.
    [[nodiscard]] Result<Server*> server();
    [[nodiscard]] Error not_there(const std::string& native);
    /// NotFound: there is no such sandbox. One that is being made is there too.
    [[nodiscard]] Result<Instance> find(const std::string& native);
    /// `work(const Instance&)` on the pool, for one that is made.
    template <class F>
    auto with(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const Instance&>>;
    /// `work(const std::string& native)` on the pool, for what is known here alone.
    template <class F>
    auto here(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const std::string&>>;

    /// Whether it is there already. Refuses what can never be.
    [[nodiscard]] Result<bool> look(const CreateRequest& request);
    [[nodiscard]] Result<SandboxHandle> make(Server& server, const CreateRequest& request);
    [[nodiscard]] Status furnish(Server& server, const Layout& layout, Record record);
    [[nodiscard]] Status remove(Server& server, const std::string& native);

    /// `work` with the files of a sandbox; `path` becomes what it is called there.
    [[nodiscard]] Status with_hands(const Instance& instance, FilePath& path,
                                    const std::function<Status(scripted::Files&)>& work);

    [[nodiscard]] Status begin_exec(const Instance& instance, ExecSpec spec);
    [[nodiscard]] Status admit_narrower(const Instance& instance, const policy::Policy& policy);

    // What the server really holds: see exec_server_backend_prove.cpp.
    [[nodiscard]] Result<std::string> proof_key(const policy::Policy& policy, const policy::Policy& around);
    /// Unsupported: tried, and some rule did not hold.
    Task<Status> attest(std::string key, policy::Policy policy, policy::Policy around);
    Task<Status> try_out(policy::Policy policy, policy::Policy around);
    [[nodiscard]] Result<Instance> begin_trial(const policy::Policy& policy, const policy::Policy& around);
    void end_trial(const Instance& trial);
    void sweep_trials(Server& server, const std::string& root);

    std::string data_;
    keeping::RemoteState state_;
    BlockingPool& pool_;
    Status unusable_;
    std::unique_ptr<Server> server_;
    std::unique_ptr<Ground> ground_;
    keeping::RelayedExecs execs_;
    Proofs proofs_;
    std::mutex trials_mutex_;
    std::map<std::string, Instance> trials_;
};

template <class F>
auto ExecServerBackend::here(SandboxHandle sandbox, F work)
    -> Task<std::invoke_result_t<F, const std::string&>>
{
    using Answer = std::invoke_result_t<F, const std::string&>;
    co_return co_await pool_.call([&]() -> Answer {
        BERTH_CHECK(keeping::check_native(sandbox.native));
        return work(sandbox.native);
    });
}

template <class F>
auto ExecServerBackend::with(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const Instance&>>
{
    using Answer = std::invoke_result_t<F, const Instance&>;
    co_return co_await pool_.call([&]() -> Answer {
        BERTH_CHECK(keeping::check_native(sandbox.native));
        BERTH_TRY(const auto instance, find(sandbox.native));
        if (!instance.record.made) return fail(Code::Unavailable, "{} is being made", sandbox.native);
        return work(instance);
    });
}

} // namespace berth::exec_server
