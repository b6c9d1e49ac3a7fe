#pragma once

#include <memory>

#include <boost/asio/any_io_executor.hpp>

#include "core/backend.hpp"
#include "server/codex/place.hpp"

namespace berth::codex {

/// An exec of a sandbox as a session follows its commands. Its log is the truth: it is read into pipes, and
/// whoever does not read those only waits.
class SandboxRun final : public Running {
public:
    struct Exec {
        Backend& backend; ///< borrowed
        SandboxHandle sandbox;
        ExecSpec spec;
        /// Called on the loop when its streams are closed, with what is known of its end.
        std::function<Task<void>(ExitStatus)> closed;
    };

    /// Of an exec that was started.
    [[nodiscard]] static Result<std::unique_ptr<SandboxRun>> follow(Exec exec,
                                                                    boost::asio::any_io_executor loop);
    SandboxRun(const SandboxRun&) = delete;
    SandboxRun& operator=(const SandboxRun&) = delete;
    ~SandboxRun() override;

    [[nodiscard]] int ended() const override;
    [[nodiscard]] ExitStatus finish() override;
    [[nodiscard]] bool refused() const override;
    void signal(int signo) override;
    void kill() override;

private:
    class Pump;
    explicit SandboxRun(std::shared_ptr<Pump> pump) : pump_(std::move(pump)) {}
    std::shared_ptr<Pump> pump_; ///< shared with what reads and feeds
};

} // namespace berth::codex
