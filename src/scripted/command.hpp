#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/exit_status.hpp"
#include "core/archive.hpp"

namespace berth::scripted {

/// A command of ours in a sandbox, from its start to its end: how files are touched and processes signalled
/// where the far side's own services cannot. Nobody sees it but its result.
struct Command {
    std::string script;                 ///< for /bin/sh
    std::vector<std::string> arguments; ///< bytes; the script finds them decoded by `d`: see prologue()
    std::string user;                   ///< empty: the sandbox's
    ByteSink out;                       ///< what it prints; else that is kept, up to 8 MiB
};

struct CommandEnd {
    ExitStatus status;
    std::string out;
    std::string err; ///< its last 4 KiB
};

/// What a command prints, bounded.
class CommandOutput {
public:
    explicit CommandOutput(const Command& command) : command_(command) {}
    [[nodiscard]] Status out(std::string_view bytes);
    void err(std::string_view bytes);
    [[nodiscard]] CommandEnd end(ExitStatus status) &&;

private:
    const Command& command_;
    CommandEnd end_;
};

/// A script begins with this: a function `d` that decodes an argument into the variable v. Arguments are
/// bytes, and JSON has only text.
[[nodiscard]] std::string_view prologue();
/// Such a form of `bytes` for printf's %b.
[[nodiscard]] std::string escape(std::string_view bytes);
/// The words of the shell that carries a command out: escaped, prologue and all.
[[nodiscard]] std::vector<std::string> shell_words(const Command& command);

/// What a tool's last words stand for: it speaks as strerror(3) does, in English.
[[nodiscard]] Error error_of_words(std::string_view words, std::string_view what,
                                   Code otherwise = Code::Internal);

/// Whoever carries commands out in one sandbox. Calls block.
class Hands {
public:
    virtual ~Hands() = default;
    /// Fails when it could not be started or its end is not known to anybody.
    [[nodiscard]] virtual Result<CommandEnd> run(const Command& command) = 0;
    /// A new temporary file of `user` with all of `source` in it, for a command that touches `beside`. Its
    /// path; the command removes it.
    [[nodiscard]] virtual Result<std::string> stage(const std::string& user, const std::string& beside,
                                                    const ByteSource& source) = 0;
};

} // namespace berth::scripted
