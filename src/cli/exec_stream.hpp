#pragma once

#include <array>
#include <optional>

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/shared_end.hpp"
#include "core/backend.hpp"
#include "core/exec_reader.hpp"

namespace berth::cli {

/// Joins an exec with our own streams, signals and terminal until it is over.
///
/// What it prints is read from its log and passed on as fast as our reader takes it; nothing is kept
/// here. When we die the exec goes on. Made before the exec starts, so that no signal is lost between.
class ExecStream {
public:
    struct Options {
        bool json = false;
    };

    /// Borrows the backend.
    ExecStream(boost::asio::any_io_executor loop, Backend& backend, SandboxHandle sandbox, ExecSpec exec,
               Options options);

    /// To be called once, when it was started.
    Task<Result<RunOutcome>> run();

    /// Why some of what it printed could not be passed on; a reader that went away is no such reason.
    [[nodiscard]] const std::optional<Error>& unwritten() const noexcept { return unwritten_; }

private:
    Task<Status> pass_events();
    Task<bool> pass(const ExecEvent& event);
    Task<void> put(std::optional<SharedEnd>& end, std::string bytes);
    Task<void> feed();
    Task<void> pass_signals();
    Task<void> watch_time();
    Task<void> reader_gone();
    Task<bool> kill();
    Task<void> drained();
    Task<void> fit_terminal();
    [[nodiscard]] SteadyTime patience() const;
    [[nodiscard]] std::string why_missing() const;

    boost::asio::any_io_executor loop_;
    Backend& backend_;
    SandboxHandle sandbox_;
    ExecSpec exec_;
    Options options_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer drain_; ///< when nobody waits any longer for our reader
    std::optional<SharedEnd> in_, out_, err_;
    ExecReader reader_;
    RunOutcome outcome_;
    std::optional<Error> failed_;
    std::optional<Error> unwritten_;
    std::array<std::uint64_t, 2> kept_{}; ///< bytes of out and err that came
    std::optional<ExecEvent> exit_;
    SteadyTime exit_seen_{};
    std::optional<SteadyTime> killed_;
    std::optional<SteadyTime> reader_gone_;
    bool told_reader_gone_ = false;
    int interrupts_ = 0;
};

} // namespace berth::cli
