#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/codex/intent.hpp"

/// The parameters of process/* and what is told about a process.
namespace berth::codex {

/// What of the executor's own environment a command gets.
struct EnvPolicy {
    enum class Inherit { All, Core, None };
    Inherit inherit = Inherit::All;
    bool ignore_default_excludes = false;
    std::vector<std::string> exclude;
    std::map<std::string, std::string> set;
    std::vector<std::string> include_only;
};

struct StartParams {
    std::string process_id;
    std::vector<std::string> argv;
    std::string cwd; ///< native
    std::map<std::string, std::string> env;
    std::optional<EnvPolicy> env_policy; ///< without one `env` is all there is
    bool tty = false;
    bool pipe_stdin = false;
    std::optional<std::string> arg0;
    std::optional<Intent> sandbox;
    bool enforce_managed_network = false;
    bool network_proxy = false; ///< one was asked for
    std::string thread_id;      ///< for logs
    std::string call_id;
};

struct ReadParams {
    std::string process_id;
    std::uint64_t after = 0;
    std::optional<std::uint64_t> max_bytes;
    std::uint64_t wait_ms = 0;
};

struct WriteParams {
    std::string process_id;
    std::string bytes;
    std::string write_id;
};

[[nodiscard]] Result<StartParams> read_start(const json::Value& params);
[[nodiscard]] Result<ReadParams> read_read(const json::Value& params);
[[nodiscard]] Result<WriteParams> read_write(const json::Value& params);
[[nodiscard]] Result<std::string> read_signal(const json::Value& params); ///< the process; "interrupt" alone
[[nodiscard]] Result<std::string> read_process(const json::Value& params);

enum class Stream { Stdout, Stderr, Pty };
[[nodiscard]] std::string_view to_string(Stream stream) noexcept;

/// "A*B?" against a name, in whatever case.
[[nodiscard]] bool wildcard_match(std::string_view pattern, std::string_view name);

/// The environment of a command: from the executor's own by the policy, then what was sent.
[[nodiscard]] std::map<std::string, std::string>
make_environment(const std::map<std::string, std::string>& own, const StartParams& start);

} // namespace berth::codex
