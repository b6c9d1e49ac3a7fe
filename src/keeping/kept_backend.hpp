#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/blocking_pool.hpp"
#include "core/attends.hpp"
#include "core/backend.hpp"
#include "core/file_attributes.hpp"
#include "core/holds_time.hpp"
#include "core/makes_for.hpp"
#include "core/moves_over.hpp"
#include "core/tells_workspace.hpp"
#include "image/tree_reader.hpp"
#include "keeping/exec_follower.hpp"
#include "keeping/idle_followers.hpp"
#include "keeping/watch_hub.hpp"
#include "sys/sandbox_files.hpp"

namespace berth::keeping {

/// Files for whole trees; `reader` may read what the sandbox's root may, whoever it belongs to.
struct Trees {
    sys::SandboxFiles files;
    std::optional<sys::SandboxFiles> reader;
    image::ReadIds ids;
};

/// The half of a backend that is the same wherever a keeper runs on this machine: files, trees, ports and
/// watches by way of the keeper's root, and the logs of execs. How one gets at an instance is the other half.
class KeptBackend : public Backend,
                    public TellsWorkspace,
                    public FileAttributes,
                    public WatchesOne,
                    public MovesOver,
                    public MakesFor,
                    public HoldsTime,
                    public Attends {
public:
    Task<Result<std::vector<ExecEvent>>> read_events(SandboxHandle sandbox, std::string exec,
                                                     std::uint64_t from, SteadyTime until) override;
    Task<Result<bool>> overdue(SandboxHandle sandbox, std::string exec) override;
    Task<void> attend(SandboxHandle sandbox, std::string exec) override;
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
    Task<Status> make_dir_for(SandboxHandle sandbox, FilePath directory, std::string owner) override;
    Task<Status> fill_file_for(SandboxHandle sandbox, FilePath file, FileContents contents,
                               std::string owner) override;
    Task<Result<UniqueFd>> dial(SandboxHandle sandbox, std::uint16_t port) override;
    Task<Result<std::vector<FileChange>>> watch(SandboxHandle sandbox, std::string watch, FilePath directory,
                                                SteadyTime until) override;
    Task<Result<std::vector<FileChange>>> watch_one(SandboxHandle sandbox, std::string watch,
                                                    FilePath directory, SteadyTime until) override;
    Task<Status> unwatch(std::string watch) override;
    Task<Status> read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                              ByteSink sink) override;
    Task<Status> write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                               ArchiveLimits limits) override;
    Task<Result<std::map<std::string, FileAttributes::Set>>> read_attributes(SandboxHandle sandbox,
                                                                             FilePath directory,
                                                                             std::vector<std::string> names,
                                                                             std::string prefix) override;
    Task<Status> write_attributes(SandboxHandle sandbox, FilePath file, std::string prefix,
                                  Set attributes) override;
    Task<Result<unsigned>> read_type(SandboxHandle sandbox, FilePath file) override;

protected:
    explicit KeptBackend(BlockingPool& pool) : pool_(pool) {}

    /// With the rights of `user`, by default the sandbox's.
    virtual Task<Result<sys::SandboxFiles>> files_of(SandboxHandle sandbox, std::string user) = 0;
    /// The same, and a pidfd of the keeper whose root they are.
    virtual Task<Result<sys::SandboxFiles>> files_to_watch(SandboxHandle sandbox, std::string user,
                                                           UniqueFd& keeper) = 0;
    virtual Task<Result<Trees>> trees_of(SandboxHandle sandbox, std::string user) = 0;
    /// How the ids of its files are shown; by default as they are.
    virtual Task<Result<image::ReadIds>> ids_of(SandboxHandle sandbox);
    virtual Task<Result<UniqueFd>> dial_by_keeper(SandboxHandle sandbox, std::uint16_t port,
                                                  int ip_version) = 0;
    /// Of an instance in any state.
    virtual Task<Result<ExecFollower>> follower_of(SandboxHandle sandbox, std::string exec,
                                                   std::uint64_t from) = 0;
    /// A directory of ours for what is read twice. Borrowed.
    [[nodiscard]] virtual int spool_directory() const = 0;

    /// Of an exec whose log is read in a moment, from its beginning.
    void expect_reader(std::string native, std::string exec, ExecFollower follower);

    BlockingPool& pool_;

private:
    template <class F>
    auto with_files(SandboxHandle handle, std::string user, F work)
        -> Task<std::invoke_result_t<F, const sys::SandboxFiles&>>;
    Task<Result<std::vector<FileChange>>> watch_to(WatchDepth depth, SandboxHandle sandbox, std::string watch,
                                                   FilePath directory, SteadyTime until);

    IdleFollowers followers_;
    std::shared_ptr<WatchHub> watches_ = WatchHub::of_process();
};

} // namespace berth::keeping
