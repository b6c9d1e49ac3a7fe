#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.hpp"
#include "core/exec_spec.hpp"
#include "lifecycle/answers.hpp"

namespace berth::cli {

inline constexpr int kOwnFailure = 125; ///< of the verbs whose exit code is the command's
inline constexpr int kTimedOut = 124;

/// What is said about one command in a sandbox that exists.
struct ExecOptions {
    std::vector<std::string> env;
    std::string workdir;
    std::string user;
    std::string timeout;
    std::string log_limit;
    std::string policy;
    bool interactive = false;
    bool terminal = false;
};

void add_exec_options(CLI::App& app, ExecOptions& options);

/// NAME=VALUE each, or NAME alone: then the value is our own, and on no command line.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_env(const std::vector<std::string>& words);

/// [OPTIONS] REF [OPTIONS] -- CMD…, where what follows -- is the command's, every word of it; without -- the
/// command begins behind the sandbox. An exit code means: we are done.
[[nodiscard]] std::optional<int> parse_with_command(CLI::App& app, Common& common, const std::string& ref,
                                                    std::vector<std::string>& command, int argc, char** argv);

/// Whether somebody stays with the command: then our input is its own and a terminal must be ours.
enum class Company { Stays, Leaves };
[[nodiscard]] Result<ExecSpec> exec_spec(const ExecOptions& options, std::vector<std::string> command,
                                         Company company);

/// A login shell on our own terminal, bash where there is one.
[[nodiscard]] Result<ExecSpec> shell_spec(const std::string& ref, const std::string& user);

/// "TERM", "SIGTERM", "15".
[[nodiscard]] Result<int> parse_signal(std::string_view text);

/// Says how a sandbox came to be usable, unless it simply was.
void say_unless_attached(const Acquired& acquired);

/// A command that could not be started is told as a shell tells it.
[[nodiscard]] int start_failure_code(const Error& error);

} // namespace berth::cli
