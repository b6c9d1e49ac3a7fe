#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/local/limits.hpp"
#include "backend/local/pools.hpp"
#include "backend/local/prepare.hpp"
#include "backend/local/state_dir.hpp"
#include "core/exec_spec.hpp"
#include "core/sandbox_spec.hpp"
#include "sys/child.hpp"

namespace berth::local {

struct AttendedCommand {
    std::vector<std::string> argv;
    std::vector<std::string> env; ///< NAME=value: all there is
    std::string cwd;
    std::optional<std::string> arg0{}; ///< what the program is called instead of argv[0]
    bool input = false;
    std::optional<TerminalSize> terminal;
};

/// A command in a throw-away sandbox of its own, for somebody who reads its streams on an event loop: its
/// descriptors are non-blocking. It dies with the thread that started it, and with this object.
class Attended {
public:
    /// Every refusal happens here, also of a command that cannot be executed. Unsupported and Invalid: the
    /// policy cannot be held. Sources of mounts must be resolved. Blocks until the command runs.
    [[nodiscard]] static Result<Attended> start(const StateDir& state, const SandboxSpec& spec,
                                                const AttendedCommand& command, Pools* pools = nullptr);
    /// The same without any sandbox: a session of its own, and a parent that ends what it has started.
    [[nodiscard]] static Result<Attended> start_bare(const AttendedCommand& command);

    UniqueFd in;  ///< of a terminal: its master, as is `out`
    UniqueFd out; ///< read end; empty: none
    UniqueFd err; ///< empty with a terminal

    /// Readable once the command has ended; then finish() does not block.
    [[nodiscard]] int pidfd() const noexcept { return init_->pidfd(); }
    /// What waitid said of the command; lets go of everything. Blocks until it has ended.
    [[nodiscard]] ExitStatus finish();
    /// After that: whether a call was refused because of a deny pattern.
    [[nodiscard]] bool refused() const noexcept { return refused_; }
    /// To the command's process group.
    void signal(int signo) const;
    /// The command and whatever it has started, at once.
    void kill() const;
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

private:
    explicit Attended(sys::Child init) : init_(std::move(init)) {}
    [[nodiscard]] static Result<Attended> begun(Attended made, const AttendedCommand& command);
    [[nodiscard]] Status await_start(bool terminal, const AttendedCommand& command);

    std::optional<sys::Child> init_;
    bool bare_ = false;
    bool refused_ = false;
    UniqueFd report_; ///< what init tells
    std::unique_ptr<Prepared> prepared_;
    std::optional<LimitGroups> limits_;
    std::vector<std::string> notes_;
};

} // namespace berth::local
