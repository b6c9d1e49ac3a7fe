#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/launch.hpp"

namespace berth::sys {

/// A small single-threaded companion process that performs launches for a large one.
///
/// Reasons: a spawn copies the descriptor table (160 µs for each thousand), and a process with
/// threads holds locks nobody can see. The companion has few descriptors and one thread. It gets
/// a list of steps and its descriptors over a socket, and answers with a pidfd. It ends when its
/// maker does; what it launched for good lives on. Its children are reaped as they end. Any thread may ask.
class Spawner {
public:
    /// Forks it. Call before the process has threads.
    [[nodiscard]] static Result<Spawner> start();
    /// The same for all launches of this process that need not be waited for, from now on.
    [[nodiscard]] static Status start_companion();
    /// That one; null where none was started.
    [[nodiscard]] static Spawner* companion() noexcept;
    Spawner(Spawner&& other) noexcept;
    Spawner& operator=(Spawner&&) = delete;
    /// Ends it and waits for its end; what it launched lives on.
    ~Spawner();

    /// sys::launch, over there. The process is the companion's child: it cannot be waited for
    /// here, but its pidfd can be polled. Where the companion has died it is done here.
    [[nodiscard]] Result<Launched> launch(StepList& list, const LaunchOptions& options);
    /// sys::launch_apart, likewise.
    [[nodiscard]] Result<LaunchedApart> launch_apart(StepList& list, const LaunchOptions& options);

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

private:
    Spawner(pid_t pid, UniqueFd socket)
        : pid_(pid), socket_(std::move(socket)), conversation_(std::make_unique<std::mutex>())
    {
    }
    /// Nothing: the companion is gone, and has done nothing of it.
    [[nodiscard]] Result<std::optional<LaunchedApart>> ask(const StepList& list, const LaunchOptions& options,
                                                           bool apart);

    pid_t pid_ = -1;
    UniqueFd socket_;
    std::unique_ptr<std::mutex> conversation_; ///< one request and its answer
};

} // namespace berth::sys
