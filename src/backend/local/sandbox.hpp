#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/local/boot.hpp"
#include "backend/local/shared.hpp"
#include "core/measures.hpp"
#include "image/tree_reader.hpp"
#include "keeping/exec_follower.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/exec_time.hpp"
#include "keeping/kept_backend.hpp"
#include "keeping/pause.hpp"
#include "sys/cgroup.hpp"
#include "sys/sandbox_files.hpp"
#include "sys/spawner.hpp"

namespace berth::local {

/// A sandbox with a keeper: it outlives the program that made it, and so do its execs and their
/// logs. This object is one program's hold on it; for one thread.
class Sandbox {
public:
    /// Where the writable layer lies.
    enum class Storage { Disk, Memory };

    struct Options {
        Storage storage = Storage::Disk;
        Pools* pools = nullptr;
        sys::Spawner* spawner = sys::Spawner::companion(); ///< launches in our stead; outlives the sandbox
        Pools::Progress progress;
        /// Groups also where no limit needs them: without, it cannot be paused, and a kill reaches less.
        bool groups = true;
        InstanceLabels labels;              ///< its generation is part of the instance's name
        std::optional<SnapshotSource> from; ///< layers to stand on, over the template
    };

    /// Makes it and returns when its keeper answers. A failure leaves nothing behind.
    [[nodiscard]] static Result<Sandbox> create(const StateDir& state, const SandboxSpec& spec,
                                                const Options& options);
    /// One that another process made or started. NotFound: it is not there, or was never finished;
    /// Conflict: it is stopped; Unavailable: somebody is changing it for longer than a call may take, or
    /// its keeper does not answer now.
    [[nodiscard]] static Result<Sandbox> open(const StateDir& state, const std::string& native);
    Sandbox(Sandbox&&) noexcept;
    Sandbox& operator=(Sandbox&&) noexcept = delete;
    /// Lets go: the sandbox lives on.
    ~Sandbox();

    [[nodiscard]] const std::string& id() const noexcept { return prepared_->spec.id; }
    [[nodiscard]] const std::string& native() const noexcept { return native_; }
    /// False when its keeper is gone: somebody stopped, killed or destroyed it, and may have started it
    /// again. This object is of no more use then; open() tells what is there now.
    [[nodiscard]] bool alive() const;
    [[nodiscard]] const SandboxSpec& spec() const noexcept { return prepared_->spec; }
    [[nodiscard]] pid_t keeper_pid() const noexcept { return keeper_pid_; }
    /// A pidfd of the keeper. Borrowed.
    [[nodiscard]] int keeper_descriptor() const noexcept { return pidfd_.get(); }
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return prepared_->notes; }

    /// Starts a command; returns when it runs or could not be started (NotFound: no such command;
    /// Denied: not executable). One with a policy of its own is started from outside and adopted
    /// by the keeper; a policy that is wider than the sandbox's is Denied.
    /// With `attendance` it is attended before it starts (attend_log()).
    [[nodiscard]] Status exec(const ExecSpec& spec, UniqueFd* attendance = nullptr);

    /// Log files and groups made ahead, so that the next execs need not.
    [[nodiscard]] Status make_ahead(std::size_t count);
    /// The same for one that works, where a second exec has shown that there may be a third. What cannot be
    /// made is made when it is needed.
    void make_next();
    [[nodiscard]] bool wants_next() const noexcept { return begun_ > 1 && spares_.empty(); }
    /// Removes what was made ahead and not used.
    void drop_ahead() noexcept;

    /// The events of an exec from a sequence number on.
    [[nodiscard]] Result<ExecFollower> follow(const std::string& exec, std::uint64_t from);
    /// Until it ends, or nothing when `patience` is over. Only for an exec that was started here.
    [[nodiscard]] Result<std::optional<ExitStatus>> wait(const std::string& exec,
                                                         std::chrono::milliseconds patience);
    /// wait(), then the whole tree is killed and its true end is told.
    struct Ended {
        ExitStatus status;
        bool timed_out = false;
        std::vector<std::string> struck;
    };
    [[nodiscard]] Result<Ended> wait_or_kill(const std::string& exec, std::chrono::milliseconds timeout);
    /// Whether something stands in a mounted directory for names that the exec may not make. The keeper holds
    /// it until the exec is closed.
    [[nodiscard]] bool holds_names(const std::string& exec) const;
    /// Of an exec that has ended: removes what stood for names, unless somebody holds it still, and ends its
    /// conversation, of which the keeper has few at a time.
    void let_go(const std::string& exec);

    [[nodiscard]] Status signal(const std::string& exec, int signo);
    /// SIGKILL to everything the exec started, also what daemonized where groups exist.
    [[nodiscard]] Status kill(const std::string& exec);
    [[nodiscard]] Result<std::size_t> write_input(const std::string& exec, std::uint64_t write_id,
                                                  std::string_view bytes);
    [[nodiscard]] Status close_input(const std::string& exec, std::uint64_t write_id);
    [[nodiscard]] Status resize(const std::string& exec, TerminalSize size);
    [[nodiscard]] Result<std::vector<keeper::Item>> execs() { return keeper_.list(); }
    /// The number of its process inside. NotFound: the keeper does not have it any more.
    [[nodiscard]] Result<int> exec_pid(const std::string& exec);
    /// Whether a deny pattern of its own kept something from it, as long as it is not let go of.
    [[nodiscard]] bool refused(const std::string& exec) const;
    [[nodiscard]] Usage usage() const;
    [[nodiscard]] Measured measured() const;
    /// Every exec that has a log, oldest first.
    [[nodiscard]] Result<std::vector<ExecInfo>> all_execs() const;

    /// The sandbox's files with the rights of a user inside; empty: the sandbox's own user. Nobody freezes
    /// them while the answer lives.
    [[nodiscard]] Result<sys::SandboxFiles> files(const std::string& user = {}) const;

    /// How the ids of its files are shown.
    [[nodiscard]] image::ReadIds shown_ids() const;

    /// The same for whole trees.
    [[nodiscard]] Result<Trees> trees(const std::string& user = {}) const;

    /// The directory that holds its work.
    [[nodiscard]] std::string workspace() const;

    /// A socket to a port of its own loopback; connecting may be in progress.
    [[nodiscard]] Result<UniqueFd> dial(std::uint16_t port, int ip_version)
    {
        return keeper_.dial(port, ip_version);
    }

    /// Frees what an ended exec holds beside its log: its group.
    void forget(const std::string& exec);

    /// Freezes all execs and returns when they stand still; the keeper goes on answering. Execs are
    /// refused until resume(). Unsupported where there is no freezer.
    [[nodiscard]] Status pause();
    [[nodiscard]] Status resume();
    [[nodiscard]] Result<Paused> paused() const;
    /// The same for a moment: nothing runs and nothing is started while the answer lives.
    [[nodiscard]] Result<Stillness> hold_still();

    /// Nobody works with it now: holds no more descriptors than an idle one needs.
    void rest() noexcept
    {
        if (group_) group_->rest();
    }

    /// Kills everything and removes it. Already gone is success.
    [[nodiscard]] Status destroy();

private:
    /// An exec while it starts: its log and its group.
    struct Starting {
        UniqueFd directory;
        std::optional<ExecLog> log;
        std::optional<sys::SandboxGroup> group;
    };
    /// The same made ahead, under a name of its own.
    struct Spare {
        std::string name;
        Starting parts;
    };
    /// What an exec with a narrower policy holds beside its log: the conversation on which the keeper
    /// tells its exit, the names it protects, and what is known of its supervisor.
    struct Adopted {
        KeeperClient keeper;
        ProtectedNames protects;
        std::optional<Supervision> supervision;
    };

    Sandbox(std::string native, UniqueFd directory, Booted booted)
        : native_(std::move(native)), prepared_(std::move(booted.prepared)), directory_(std::move(directory)),
          keeper_(std::move(booted.keeper)), keeper_pid_(booted.pid), pidfd_(std::move(booted.pidfd)),
          group_(std::move(booted.group))
    {
    }
    friend class Parked; ///< one that is made before somebody asks for it
    struct Made {
        std::string native;
        UniqueFd directory; ///< locked
        Instance instance;
        Booted booted;
    };
    [[nodiscard]] static Result<Made> make(const StateDir& state, const SandboxSpec& spec,
                                           const Options& options, Recorded recorded);
    [[nodiscard]] Result<Starting> make_starting(int all, const std::string& name, ExecLog::Streams streams);
    [[nodiscard]] Result<Starting> start(const ExecSpec& spec);
    /// What processes that were killed have made ahead here.
    void sweep_spares(int all);
    void abandon(const ExecSpec& spec, Starting& starting);
    [[nodiscard]] Result<sys::SandboxGroup> group_of(const std::string& exec) const;
    /// "root" or "ns/user" of the keeper in /proc, and of no other process that has its number by now.
    [[nodiscard]] Result<UniqueFd> open_of_keeper(const char* what, int flags) const;
    [[nodiscard]] std::vector<std::string> struck_by(const std::string& exec);
    /// Of one that has a timeout.
    [[nodiscard]] keeping::ExecTime time_of(const ExecSpec& spec, const Starting& starting) const;
    [[nodiscard]] Status exec_in_keeper(const ExecSpec& spec, const Account& user, Starting& starting);
    [[nodiscard]] Status exec_narrower(const ExecSpec& spec, const Account& user, Starting& starting);
    [[nodiscard]] Result<sys::SandboxGroup*> freezable();
    [[nodiscard]] Status kill_group(sys::SandboxGroup& exec);

    std::string native_;
    std::unique_ptr<Prepared> prepared_;
    UniqueFd directory_; ///< <state>/sandbox/<native>
    KeeperClient keeper_;
    pid_t keeper_pid_ = -1;
    UniqueFd pidfd_;
    sys::Spawner* spawner_ = sys::Spawner::companion();
    bool opened_ = false; ///< made by another process: what is mounted is not held open
    std::optional<sys::KeptGroup> group_;
    std::map<std::string, Adopted> adopted_; ///< execs with a narrower policy
    std::map<std::string, pid_t> pids_;      ///< of execs that were started here, the last of them
    std::deque<Spare> spares_;
    std::uint64_t spare_count_ = 0;
    std::uint64_t begun_ = 0;                                ///< execs, by this process
    std::map<std::string, std::vector<std::string>> struck_; ///< by exec, until it is forgotten
    std::uint64_t oom_seen_ = 0; ///< kills of the memory limit that were told before
    std::uint64_t pids_seen_ = 0;
    std::chrono::microseconds waited_seen_{0};
};

} // namespace berth::local
