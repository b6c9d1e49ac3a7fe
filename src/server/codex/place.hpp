#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/blocking_pool.hpp"
#include "base/exit_status.hpp"
#include "base/unique_fd.hpp"
#include "protocol/codex/files.hpp"
#include "protocol/codex/process.hpp"
#include "server/codex/file_answers.hpp"
#include "server/codex/rpc.hpp"

namespace berth::codex {

template <class T> using Outcome = std::expected<T, RpcError>;

/// A command that runs: its streams as non-blocking descriptors. It dies with this object.
class Running {
public:
    virtual ~Running() = default;

    UniqueFd in;  ///< empty: it has none
    UniqueFd out; ///< of a terminal too
    UniqueFd err; ///< empty with a terminal

    /// Readable once the command has ended; then finish() does not wait for it.
    [[nodiscard]] virtual int ended() const = 0;
    /// How it ended; lets go of everything. Blocks for a moment: on the pool.
    [[nodiscard]] virtual ExitStatus finish() = 0;
    /// Whether there is evidence that something was refused to it, after finish().
    [[nodiscard]] virtual bool refused() const { return false; }
    /// To the command's process group. On the loop, as kill().
    virtual void signal(int signo) = 0;
    /// The command and whatever it has started, at once.
    virtual void kill() = 0;
};

struct Started {
    std::unique_ptr<Running> command;
    bool confined = true; ///< something holds it
};

/// A file to be read or written: a descriptor, or a way to read it where there can be none.
struct OpenFile {
    UniqueFd file;
    /// What lies at a place; less than was asked for at its end only.
    std::function<Task<Outcome<std::string>>(std::uint64_t offset, std::size_t length)> read_at;
};

/// Hints that a path that was missing may be there now: each watch fires once.
class Watcher {
public:
    virtual ~Watcher() = default;
    /// False: nothing to wait for, or no means to.
    virtual Task<bool> add(WatchParams params) = 0;
    virtual void close() noexcept = 0;
};
/// Told the number of a watch that is spent.
using Fire = std::function<void(std::int64_t)>;

/// Where the commands of a session run and whose files it touches: this host, or a sandbox. The intent that
/// comes with a call governs it, whichever call it is; what cannot be held is refused.
class Place {
public:
    virtual ~Place() = default;

    [[nodiscard]] virtual BlockingPool& pool() noexcept = 0;
    [[nodiscard]] virtual json::Object info() const = 0;
    virtual Task<Outcome<Started>> start(StartParams params) = 0;

    virtual Task<Outcome<files::Metadata>> metadata(PathParams params) = 0;
    virtual Task<Outcome<std::string>> canonical(PathParams params) = 0;
    virtual Task<Outcome<std::string>> read(PathParams params) = 0;
    virtual Task<Outcome<void>> write(WriteFileParams params) = 0;
    virtual Task<Outcome<void>> make_directory(PathParams params) = 0;
    /// Whole trees, as copy and walk: given up once whoever asked has left.
    virtual Task<Outcome<void>> remove(PathParams params, std::stop_token left) = 0;
    virtual Task<Outcome<std::vector<files::Entry>>> list(PathParams params) = 0;
    virtual Task<Outcome<void>> copy(CopyParams params, std::stop_token left) = 0;
    virtual Task<Outcome<files::WalkResult>> walk(WalkParams params, std::stop_token left) = 0;
    virtual Task<Outcome<OpenFile>> open(OpenParams params) = 0;
    /// Null: nothing can be watched here.
    [[nodiscard]] virtual std::shared_ptr<Watcher> watcher(boost::asio::any_io_executor loop, Fire fire) = 0;

    /// The session that it was opened for is over, and its commands have ended.
    virtual Task<void> leave() = 0;
};

/// What no place does for a command.
[[nodiscard]] std::optional<RpcError> refuse_unheld(const StartParams& params);

/// Opens the place of a new session.
using PlaceMaker = std::function<Task<Outcome<std::shared_ptr<Place>>>()>;
/// The same for every session.
[[nodiscard]] PlaceMaker always(std::shared_ptr<Place> place);

} // namespace berth::codex
