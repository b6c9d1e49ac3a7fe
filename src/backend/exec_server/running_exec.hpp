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
#include "keeping/log_writer.hpp"
#include "protocol/codex/process_client.hpp"

namespace berth::exec_server {

/// One exec as this process has it: a session of its own with the server, so that it can be handed to another
/// process of ours alone. A thread keeps the connection, and what comes is written to the log. When the
/// connection breaks it is resumed, and every numbered event is asked for that was missed; when that cannot
/// be, the exec is out of reach. Another process that wants to act on the exec says so by a file, and gets
/// it.
class RunningExec {
public:
    struct Wish {
        std::string native; ///< of the instance
        std::string exec;
        UniqueFd directory; ///< of the exec, on this machine
        UniqueFd claim;     ///< the right to write the log, held as long as this has the session
        keeping::LogWriter writer;
    };
    RunningExec(const Config& config, Wish wish);
    RunningExec(const RunningExec&) = delete;
    RunningExec& operator=(const RunningExec&) = delete;
    /// Hangs up. The command runs on for as long as the server keeps the session, some 30 seconds, unless
    /// somebody takes it up.
    ~RunningExec();

    /// Returns when the command runs, or why it does not.
    [[nodiscard]] Status start(const ExecSpec& spec, const std::string& cwd, const Layout& layout,
                               const Confines& confines, const std::map<std::string, std::string>& env);
    /// Goes on with what another process has started.
    [[nodiscard]] Status go_on();

    /// As Backend::write_input.
    [[nodiscard]] Result<std::size_t> write(std::uint64_t id, std::string_view bytes);
    [[nodiscard]] Status close_input();
    [[nodiscard]] Status signal(int signo);
    [[nodiscard]] Status resize(TerminalSize size);
    [[nodiscard]] Status kill();

    /// Nothing more comes from here: it has ended, somebody else has it, or it is out of reach.
    [[nodiscard]] bool done() const;
    [[nodiscard]] std::optional<Error> lost() const;
    void wait_done(SteadyTime until) const;
    [[nodiscard]] const std::string& native() const noexcept { return wish_.native; }

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
    Wish wish_;
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
    bool deaf_ = false;  ///< the command reads no input any more
    bool ended_ = false; ///< of its input
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
