#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/docker/exec_stream.hpp"
#include "keeping/account.hpp"
#include "keeping/relayed_execs.hpp"

namespace berth::docker {

/// Where our program lies in a container of an engine elsewhere.
inline constexpr const char* kFarKeeper = "/.berth/keeper";

/// One exec in a container of an engine on another machine. A relay of ours stands beside the command there
/// and keeps what it prints until it is in the log here; it outlives this process, and whoever comes later
/// goes on.
class FarExec final : public keeping::RelayedExec {
public:
    FarExec(const Engine& engine, std::string container, keeping::RelayedWish wish);
    /// Hangs up; the command runs on.
    ~FarExec() override;

    /// Returns when the command runs, or why it does not.
    [[nodiscard]] Status start(const ExecSpec& spec, const keeping::Account& user,
                               const std::vector<std::string>& env, const std::string& cwd);
    /// Goes on with what another process has started.
    void go_on();

    [[nodiscard]] Result<std::size_t> write(std::uint64_t id, std::string_view bytes) override;
    [[nodiscard]] Status close_input() override;
    [[nodiscard]] Status signal(int signo) override;
    [[nodiscard]] Status resize(TerminalSize size) override;
    [[nodiscard]] Status kill() override;
    [[nodiscard]] bool done() const override;
    [[nodiscard]] std::optional<Error> lost() const override;
    void wait_done(SteadyTime until) const override;
    void wait_heard(SteadyTime until) const override;

private:
    using StreamPtr = std::shared_ptr<ExecStream>;

    void run();
    /// True: there is nothing more to hear.
    [[nodiscard]] bool attend();
    [[nodiscard]] bool reconnect();
    [[nodiscard]] Result<StreamPtr> attach(bool waits) const;
    /// What the relay says.
    [[nodiscard]] Status take(std::string_view bytes);
    [[nodiscard]] Status obey(const keeper::RelayHead& head, std::string_view body);
    void finish_unknown();
    [[nodiscard]] Status send(keeper::RelayKind kind, std::uint64_t offset, std::string_view bytes = {});
    [[nodiscard]] std::string socket() const;

    const Engine& engine_;
    const std::string container_;
    keeping::RelayedWish wish_;
    // Of the reading thread alone.
    std::string partial_;
    std::uint64_t spent_ = 0;
    std::uint64_t granted_ = keeper::kRelayFirstCredit;
    bool stranger_ = false; ///< another process began it: what it was given is not known here

    std::mutex sending_; ///< one frame after the other; taken before mutex_
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    StreamPtr stream_;   ///< none while there is no connection
    std::string window_; ///< input from taken_ to sent_
    std::uint64_t sent_ = 0;
    std::uint64_t taken_ = 0;
    bool begun_ = false;
    bool deaf_ = false;
    bool ended_ = false; ///< of its input
    bool stopping_ = false;
    bool done_ = false;
    std::optional<std::pair<keeper::Step, int>> failed_; ///< instead of beginning
    std::optional<Error> lost_;
    std::uint64_t last_write_ = 0;
    std::size_t last_taken_ = 0;
    std::thread thread_;
};

} // namespace berth::docker
