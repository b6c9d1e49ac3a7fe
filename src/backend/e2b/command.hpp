#pragma once

#include <string>
#include <vector>

#include "backend/e2b/envd.hpp"
#include "base/exit_status.hpp"
#include "core/exec_spec.hpp"
#include "protocol/e2b/process.hpp"

namespace berth::e2b_client {

/// A command of ours in a sandbox, from its start to its end: how files are touched and processes signalled
/// with the rights of a user, which the daemon's own services do not know. Nobody sees it but its result.
struct Command {
    std::string script;                 ///< for /bin/sh
    std::vector<std::string> arguments; ///< bytes; the script finds them decoded by `d`: see below
    std::string user;                   ///< empty: the sandbox's
    ByteSink out;                       ///< what it prints; else that is kept, up to 8 MiB
};

struct CommandEnd {
    ExitStatus status;
    std::string out;
    std::string err; ///< its last 4 KiB
};

/// Every script begins with a function `d`: it decodes an argument into the variable v. Arguments are bytes,
/// and JSON has only text.
[[nodiscard]] Result<CommandEnd> run_command(Envd& envd, const Session& session, const Command& command);

/// Such a form of `bytes` for printf's %b.
[[nodiscard]] std::string escape(std::string_view bytes);

/// How a command is started: as it is, or through a shell that decodes what is no text.
[[nodiscard]] e2b::StartRequest start_of(const ExecSpec& spec, const std::string& workdir);
/// Why it could not be.
[[nodiscard]] Error start_error(const connect::Failure& failure, const ExecSpec& spec);

/// What a tool's last words stand for: it speaks as strerror(3) does, in English.
[[nodiscard]] Error error_of_words(std::string_view words, std::string_view what);

} // namespace berth::e2b_client
