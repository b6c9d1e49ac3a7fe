#pragma once

#include <string>
#include <vector>

#include "policy/policy.hpp"
#include "server/codex/destinations.hpp"

namespace berth::codex {

/// What the operator grants at most: no client's intent reaches beyond it.
struct Ceiling {
    /// What becomes of a command that asks for no sandbox.
    enum class Unsandboxed {
        Refuse,
        Confine, ///< it gets workspace-write around its working directory
        Allow,   ///< it runs with our own rights
    };
    bool served = true; ///< false: nobody may use this face at all
    std::vector<std::string>
        roots; ///< where clients may write, beside temporary directories; empty: anywhere
    Unsandboxed unsandboxed = Unsandboxed::Refuse;
    bool network = false; ///< an intent with network gets the host's; otherwise none
    /// Variables of ours that commands may inherit, as patterns.
    std::vector<std::string> pass_env{"PATH", "SHELL", "TMPDIR", "TEMP",    "TMP",  "HOME",
                                      "LANG", "LC_*",  "TZ",     "LOGNAME", "USER", "TERM"};
    std::vector<Destination> http; ///< where http/request may go; empty: there is no such method
    std::string token_file;        ///< hidden from every command; may be empty
    policy::Limits limits{.pids = 4096, .open_files = 20'000};
};

} // namespace berth::codex
