#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeper/wire.hpp"
#include "keeping/exec_log.hpp"

namespace berth::keeping {

/// A command for the keeper to start.
struct KeeperExec {
    std::uint64_t id = 0; ///< never used before in this sandbox, never 0
    std::vector<std::string> argv;
    std::vector<std::string> env; ///< "NAME=value"
    std::string cwd;
    std::uint32_t uid = 0, gid = 0; ///< inside
    std::uint32_t flags = keeper::kPace;
    std::uint64_t log_limit = std::uint64_t{64} << 20;
    std::uint16_t rows = 24, columns = 80;
    keeper::GroupKind group_kind = keeper::GroupKind::None;
    std::vector<int> groups; ///< borrowed: v1 `tasks` files, or a v2 directory and then v1 `tasks` files
    std::uint64_t open_files = keeper::kKeepLimit, processes = keeper::kKeepLimit;
    std::uint64_t file_size = keeper::kKeepLimit, cpu_seconds = keeper::kKeepLimit;
};

/// How long a command may run, and what the keeper needs to hold it; descriptors are borrowed, -1: there is
/// none.
struct KeeperTime {
    std::chrono::nanoseconds limit{0};
    int pauses = -1, frozen = -1; ///< both or neither
    int kill = -1;                ///< cgroup.kill of its group
};

/// A command that somebody else started in the sandbox (one with a narrower policy), to be logged and
/// reaped by the keeper, whose child it has become. Usually it sends this itself before its execve.
struct KeeperAdopt {
    std::uint64_t id = 0;
    pid_t pid = 0; ///< inside
    std::uint32_t flags = keeper::kPace;
    std::uint64_t log_limit = std::uint64_t{64} << 20;
    std::vector<int> ends; ///< borrowed: read ends of out and err [, write end of input], or a pty's master
};

/// What became of it: a pid inside, or the step that failed. A command that cannot be started is an
/// answer, not an error of the conversation.
struct Launched {
    pid_t pid = 0;
    keeper::Step step = keeper::Step::None;
    int error = 0;

    [[nodiscard]] bool started() const noexcept { return step == keeper::Step::None; }
    /// As a shell would: 127 not found, 126 not executable, 125 for the rest.
    [[nodiscard]] int exit_code() const noexcept { return keeper::exit_code_of_failure(step, error); }
    /// "entering the working directory: No such file or directory".
    [[nodiscard]] std::string reason() const;
};

[[nodiscard]] std::string_view to_string(keeper::Step step) noexcept;

/// A conversation with a keeper, one question at a time; not for several threads. The keeper is pid 1
/// of something hostile: every answer is checked, and silence, noise or nonsense ends in an error.
class KeeperClient {
public:
    /// `name` is a socket in `directory`. `patience` bounds every single call.
    [[nodiscard]] static Result<KeeperClient> connect(int directory, const std::string& name,
                                                      std::chrono::milliseconds patience);

    /// Borrowed; hangs up when the keeper dies.
    [[nodiscard]] int socket() const noexcept { return socket_.get(); }

    [[nodiscard]] Status ping();
    /// For the exec or the adoption that this conversation asks for next. False: a keeper that holds no
    /// times, of a program before this one.
    [[nodiscard]] Result<bool> expect_time(std::uint64_t exec, const KeeperTime& time);
    [[nodiscard]] Result<Launched> exec(const KeeperExec& what, const ExecLog& log);
    [[nodiscard]] Status adopt(const KeeperAdopt& what, const ExecLog& log);
    [[nodiscard]] Result<std::vector<keeper::Item>> list();
    /// Adds to the eventfd (non-blocking) with each record of the exec, until the connection ends.
    [[nodiscard]] Result<keeper::State> follow(std::uint64_t exec, int eventfd);
    [[nodiscard]] Status signal(std::uint64_t exec, int number, keeper::Scope scope);
    /// Bytes taken, fewer than given when the pipe is full. After no answer: the same write id again.
    [[nodiscard]] Result<std::size_t> write_stdin(std::uint64_t exec, std::uint64_t write,
                                                  std::string_view bytes);
    /// Closes the pipe; on a terminal types the character for end of file.
    [[nodiscard]] Status close_stdin(std::uint64_t exec, std::uint64_t write);
    [[nodiscard]] Status resize(std::uint64_t exec, std::uint16_t rows, std::uint16_t columns);
    /// A non-blocking socket to a port of the sandbox's own loopback; connecting may be in progress.
    [[nodiscard]] Result<UniqueFd> dial(std::uint16_t port, int ip_version = 4);
    /// The end of the sandbox. Returns when the keeper is gone.
    [[nodiscard]] Status stop();

    /// The number that the next question has, for somebody who asks it on this socket in our stead.
    [[nodiscard]] std::uint64_t next_request() noexcept { return ++last_request_; }
    /// The keeper's word that it adopted the command which named itself with next_request() and kNotify.
    [[nodiscard]] Status await_adoption(std::uint64_t exec);

    /// The raw wait status of an exec that this connection started with kNotify. NotFound: it did not,
    /// or was asked before; DeadlineExceeded: it still runs.
    [[nodiscard]] Result<int> wait_exit(std::uint64_t exec, std::chrono::milliseconds patience);
    /// Nobody will wait for it.
    void forget(std::uint64_t exec) { exits_.erase(exec); }

private:
    struct Answer {
        std::string bytes;
        UniqueFd descriptor;
        [[nodiscard]] keeper::Reply reply() const { return keeper::load<keeper::Reply>(bytes.data()); }
        [[nodiscard]] keeper::Type type() const;
    };
    using Deadline = std::chrono::steady_clock::time_point;

    KeeperClient(UniqueFd socket, std::chrono::milliseconds patience)
        : socket_(std::move(socket)), patience_(patience)
    {
    }
    Result<Answer> ask(std::string message, std::span<const int> fds, std::string_view what);
    Result<keeper::Reply> ask_simple(std::string message, std::span<const int> fds, std::string_view what);
    Status send(std::string& message, std::span<const int> fds, std::string_view what);
    Result<Answer> receive_for(std::uint64_t request, Deadline end, std::string_view what);
    /// The next good message; EXIT messages are put aside and give an empty answer.
    Result<std::optional<Answer>> receive(Deadline end, std::string_view what);

    UniqueFd socket_;
    std::chrono::milliseconds patience_;
    std::uint64_t last_request_ = 0;
    std::map<std::uint64_t, std::optional<int>> exits_; ///< execs of ours with kNotify
    std::uint64_t told_ = 0;                            ///< how many exits were put there
};

} // namespace berth::keeping
