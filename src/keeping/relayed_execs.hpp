#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/blocking_pool.hpp"
#include "core/backend.hpp"
#include "keeping/log_writer.hpp"
#include "keeping/remote_state.hpp"

namespace berth::keeping {

/// One exec of another machine as this process has it: it hears the session there and writes the log here.
class RelayedExec {
public:
    RelayedExec() = default;
    RelayedExec(const RelayedExec&) = delete;
    RelayedExec& operator=(const RelayedExec&) = delete;
    virtual ~RelayedExec() = default;

    /// As Backend::write_input.
    [[nodiscard]] virtual Result<std::size_t> write(std::uint64_t id, std::string_view bytes) = 0;
    [[nodiscard]] virtual Status close_input() = 0;
    [[nodiscard]] virtual Status signal(int signo) = 0;
    [[nodiscard]] virtual Status resize(TerminalSize size) = 0;
    [[nodiscard]] virtual Status kill() = 0;

    /// Nothing more comes from here: it has ended, somebody else has it, or it is out of reach.
    [[nodiscard]] virtual bool done() const = 0;
    [[nodiscard]] virtual std::optional<Error> lost() const = 0;
    virtual void wait_done(SteadyTime until) const = 0;
    /// Until what happened before it was taken up here is in the log.
    virtual void wait_heard(SteadyTime until) const = 0;
};

/// What is needed to have one.
struct RelayedWish {
    std::string native; ///< of the instance
    std::string exec;
    UniqueFd directory; ///< of the exec, on this machine
    UniqueFd claim;     ///< the right to write the log, for as long as the session is held
    LogWriter writer;
};

/// The execs of instances elsewhere. Logs lie on this machine, below `exec` of an instance's directory; each
/// is written by the one process that has the session, and to act on an exec one must have it: whoever does
/// is asked by a file and lets it go.
class RelayedExecs {
public:
    using ExecPtr = std::shared_ptr<RelayedExec>;
    /// The directory of an instance; goes on with an exec that another process has left. Where the writer
    /// knows no process, whoever started it was killed before it heard whether it runs.
    using Directory = std::function<Result<UniqueFd>(const std::string& native)>;
    using GoOn = std::function<Result<ExecPtr>(RelayedWish wish)>;

    RelayedExecs(BlockingPool& pool, Directory directory, GoOn go_on)
        : pool_(pool), directory_(std::move(directory)), go_on_(std::move(go_on))
    {
    }

    /// `start` has it run. What could not be started is no exec.
    [[nodiscard]] Status begin(const std::string& native, const ExecSpec& spec,
                               const std::function<Result<ExecPtr>(RelayedWish)>& start);
    Task<Result<std::vector<ExecEvent>>> read_events(std::string native, std::string exec, std::uint64_t from,
                                                     SteadyTime until);
    Task<Result<std::optional<Ended>>> wait(std::string native, std::string exec, SteadyTime until);

    // These block.

    /// Has the session from now on. Conflict: the exec has ended.
    [[nodiscard]] Result<ExecPtr> take(const std::string& native, const std::string& exec);
    /// The same, for one that takes input.
    [[nodiscard]] Result<ExecPtr> take_input(const std::string& native, const std::string& exec);
    /// One that has ended is success.
    [[nodiscard]] Status kill(const std::string& native, const std::string& exec);
    [[nodiscard]] Status resize(const std::string& native, const std::string& exec, TerminalSize size);
    [[nodiscard]] Result<std::vector<ExecInfo>> list(const std::string& native);
    [[nodiscard]] Status settle(const std::string& native, const std::string& exec);
    [[nodiscard]] Result<int> pid(const std::string& native, const std::string& exec);
    /// TERM to whatever runs and can be reached, unless there is no `grace`, and KILL after it.
    void end_all(const std::string& native, std::chrono::milliseconds grace);
    /// Nobody of this process has anything of the instance any more.
    void let_go(const std::string& native);

private:
    enum class Act { Read, Take };
    struct Held {
        std::string native;
        ExecPtr exec;
    };

    [[nodiscard]] Result<ExecLog> attend(const std::string& native, const std::string& exec, Act act,
                                         ExecPtr& ours);
    [[nodiscard]] Result<UniqueFd> claim(int exec_directory, Act act);

    BlockingPool& pool_;
    Directory directory_;
    GoOn go_on_;
    std::mutex mutex_; ///< of what follows; taken last
    std::map<std::string, Held> held_;
};

/// Somebody asks whoever has the exec to let it go.
[[nodiscard]] Status ask_for_it(int exec_directory);
[[nodiscard]] bool is_asked_for(int exec_directory) noexcept;
void stop_asking(int exec_directory) noexcept;

} // namespace berth::keeping
