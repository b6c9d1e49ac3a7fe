#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/exec_spec.hpp"
#include "keeping/account.hpp"
#include "keeping/exec_time.hpp"
#include "keeping/keeper_client.hpp"
#include "keeping/rule_site.hpp"
#include "keeping/supervision.hpp"
#include "sys/seccomp.hpp"
#include "sys/spawner.hpp"

namespace berth::keeping {

/// Every preset has a limit of processes and of open files. One that only the preset says is not asked for:
/// where the sandbox has less, that is the command's.
[[nodiscard]] policy::Policy without_usual_limits(policy::Policy inner, const policy::Limits& outer);

/// Groups have the limits of the whole sandbox. What one command alone can be held to, or what holds around
/// it anyway, is taken; the rest is refused by name.
[[nodiscard]] Status narrow_limits(policy::Policy& inner, const policy::Limits& outer, const Account& user);

/// A command with walls of its own inside those of its sandbox, and the sandbox it is to be started in.
/// Descriptors are borrowed.
struct NarrowStart {
    const ExecSpec* exec = nullptr;
    const ExecLog* log = nullptr;
    std::vector<std::string> env, programs; ///< `programs`: paths to be tried for the command
    std::string cwd;
    Account user;
    policy::Limits limits;
    RuleSite site;
    int landlock_abi = 0;
    sys::FilterOptions filter;
    std::uint64_t caps = 0;                   ///< kept
    const Supervision* supervision = nullptr; ///< holds the deny patterns, where there are any
    std::string label; ///< what the security module is told for the program; empty: nothing

    int keeper_pidfd = -1;
    std::uint64_t namespaces = 0; ///< of the keeper's, to be entered
    bool own_network = false;     ///< nothing but a loopback of its own
    int users = -1;               ///< the sandbox's user namespace, entered late; -1: none
    bool changes_ids = true;      ///< it has more than one id
    std::vector<int> tasks;       ///< files that "0" is written to, to be in its groups
    int birth_directory = -1;     ///< of a v2 group
    std::vector<int> locks;       ///< held by the keeper as long as the command lives
    int root = -1;                ///< the sandbox's root, for a terminal and for protected names
    std::optional<std::uint32_t> terminal_owner; ///< its user's number outside, where that is not ours
    sys::Spawner* spawner = nullptr;             ///< launches in our stead, where there is one
    const ExecTime* time = nullptr;              ///< null: it may run for ever
};

/// Returns when the command runs and the keeper has it. `keeper` is a conversation for nothing else.
[[nodiscard]] Status start_narrow(const NarrowStart& start, KeeperClient& keeper);

} // namespace berth::keeping
