#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/capabilities.hpp"
#include "core/sandbox_spec.hpp"
#include "core/terrain.hpp"
#include "policy/bind.hpp"

/// A proof of a policy: probes that run inside a living sandbox, and what they must come to.
namespace berth::prove {

enum class Must { Fail, Pass };

/// One thing the prober does for one rule.
struct Probe {
    std::string rule; ///< in the words of policy::Demand
    std::string name; ///< "write_directly /etc"
    Must must = Must::Fail;
    std::vector<std::string> act;   ///< the prober's word and its arguments
    bool absent_is_refusal = false; ///< what is not there cannot be reached either
    bool only_told = false;         ///< no backend promises it: what it came to is told and not judged
    bool of_this_machine = false;   ///< it tries to reach what this process put up
};

/// What the prober said about where it runs.
struct Facts {
    std::string user; ///< as whom it was asked to run
    std::uint32_t uid = 0;
    std::string kernel;
    std::string machine;
    std::string home;
};

/// What this process put up outside, for probes to reach; see Canary.
struct Bait {
    std::string word;               ///< what listeners and files say
    std::vector<std::string> files; ///< hold the word
    std::string socket;             ///< a unix socket by path
    std::string abstract;           ///< "@name"
    std::uint16_t tcp4 = 0;         ///< ports of our loopback; 0: none
    std::uint16_t tcp6 = 0;
    std::uint16_t udp4 = 0;
    std::uint64_t pid = 0;
    std::uint64_t pid_start = 0; ///< field 22 of its /proc/PID/stat
};

/// How far a proof goes.
enum class Load {
    Whole, ///< limits are exceeded on purpose
    Light, ///< something else runs inside: what would starve it is left out
};

struct Ground {
    const SandboxSpec& spec;
    const Capabilities& have;
    const Bait& bait;
    const Facts& facts;
    Load load = Load::Whole;
    Terrain terrain{};
};

/// Why a rule, or a part of it, is not tried.
struct Untried {
    std::string rule;
    std::string why;
};

struct Plan {
    std::vector<Probe> probes;
    std::vector<Untried> untried;
    std::vector<std::string> planted; ///< files to be put there from outside, with the bait's word in them
    std::vector<std::string> spots;   ///< paths whose directories must be there
    std::vector<std::string> scratch; ///< directories that probes make something in
};

/// The probes for every rule of the policy, and for what no policy may give away: for the first user all, for
/// a further one those that depend on who asks.
[[nodiscard]] Result<Plan> plan(const Ground& ground);
[[nodiscard]] Result<Plan> plan_for_another_user(const Ground& ground);

// Parts of it.
[[nodiscard]] Status plan_files(const Ground& ground, Plan& out);
void plan_host(const Ground& ground, Plan& out);
void plan_network(const Ground& ground, Plan& out);
void plan_kernel(const Ground& ground, Plan& out);
void plan_limits(const Ground& ground, Plan& out);

/// What the symbols of the policy stand for inside.
[[nodiscard]] policy::Roots roots_of(const Ground& ground);
/// The first directory inside that may be written; empty: there is none.
[[nodiscard]] std::string writable_place(const Ground& ground);
/// True where the sandbox is a vendor's, of whose machine nothing can be known.
[[nodiscard]] bool elsewhere(const Capabilities& have);

[[nodiscard]] std::string_view to_string(Must must) noexcept;

} // namespace berth::prove
