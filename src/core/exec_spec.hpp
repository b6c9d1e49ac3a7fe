#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "policy/policy.hpp"

namespace berth {

struct TerminalSize {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;
};

/// One command in a sandbox.
struct ExecSpec {
    enum class Stdin { None, Open };

    std::string id; ///< "exec_…"
    std::vector<std::string> argv;
    std::map<std::string, std::string> env; ///< on top of the sandbox's
    std::string cwd;                        ///< empty: the sandbox's
    std::string user;                       ///< empty: the sandbox's
    Stdin input = Stdin::None;
    std::optional<TerminalSize> terminal; ///< a pty instead of pipes
    std::optional<std::chrono::nanoseconds> timeout;
    Bytes log_limit = 64_MiB;
    /// Narrower than the sandbox's, never wider: checked before anything starts.
    std::optional<policy::Policy> policy;
};

/// Refuses an empty command, NUL bytes, and argument lists the kernel could not take.
[[nodiscard]] Status validate(const ExecSpec& spec);

} // namespace berth
