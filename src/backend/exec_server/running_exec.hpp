#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/exec_server/confines.hpp"
#include "backend/exec_server/position.hpp"
#include "backend/exec_server/server.hpp"
#include "core/exec_spec.hpp"
#include "keeping/relayed_execs.hpp"
#include "protocol/codex/process_client.hpp"

namespace berth::exec_server {

/// One exec as this process has it: a session of its own with the server, so that it can be handed to another
/// process of ours alone. A thread keeps the connection, and what comes is written to the log. When the
/// connection breaks it is resumed, and every numbered event is asked for that was missed; when that cannot
/// be, the exec is out of reach. Another process that wants to act on the exec says so by a file, and gets
/// it.
class RunningExec final : public keeping::RelayedExec {
public:
    RunningExec(const Config& config, keeping::RelayedWish wish);
    /// Hangs up. The command runs on for as long as the server keeps the session, some 30 seconds, unless
    /// somebody takes it up.
    ~RunningExec() override;

    /// Returns when the command runs, or why it does not.
    [[nodiscard]] Status start(const ExecSpec& spec, const std::string& cwd, const Layout& layout,
                               const Confines& confines, const std::vector<std::string>& env);
    /// Goes on with what another process has started.
    [[nodiscard]] Status go_on();

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
    enum class Next { Connect, Attend, Over };

    void run();
    /// Connects and asks for what was missed. Over: nobody will ever know more.
    [[nodiscard]] Next connect();
    [[nodiscard]] Next attend();
    [[nodiscard]] Status catch_up(Link& link);
    void hear(const std::string& method, const json::Value& params);
    [[nodiscard]] Status apply(const codex::ProcessEvent& event);
    [[nodiscard]] Status take(const std::string& bytes);
    void finish_unknown();
    [[nodiscard]] Status send(keeper::RelayKind kind, std::uint64_t offset, std::string_view bytes = {});
    [[nodiscard]] Result<std::shared_ptr<Link>> link_within(SteadyTime until);
    [[nodiscard]] Status open_link(const std::string& resume, SteadyTime until);

    const Config config_;
    keeping::RelayedWish wish_;
    const std::string writes_; ///< begins the ids of what this one writes
    std::string session_;

    std::mutex sending_; ///< one frame after the other; taken before mutex_
    std::uint64_t sends_ = 0;

    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::shared_ptr<Link> link_;
    Position position_;
    std::map<std::uint64_t, codex::ProcessEvent> early_; ///< events before which others are missing
    bool catching_up_ = false;
    bool begun_ = false;
    bool taken_up_ = false; ///< another process began it
    bool deaf_ = false;     ///< the command reads no input any more
    bool ended_ = false;    ///< of its input
    bool stopping_ = false;
    bool done_ = false;
    std::optional<std::pair<keeper::Step, int>> failed_; ///< instead of beginning
    std::optional<Error> bad_;                           ///< what the server told cannot be
    std::optional<Error> lost_;
    std::uint64_t granted_ = keeper::kRelayFirstCredit;
    std::uint64_t last_write_ = 0;
    std::size_t last_taken_ = 0;
    std::thread thread_;
};

} // namespace berth::exec_server
