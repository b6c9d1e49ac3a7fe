#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/local/holdings.hpp"
#include "backend/local/plan.hpp"
#include "backend/local/pools.hpp"
#include "keeping/protect.hpp"

namespace berth::local {

/// Everything that is decided and opened before a launch, together with what it points to. On the
/// heap, because the plan refers to its neighbours.
struct Prepared {
    SandboxSpec spec;
    Identity identity;
    Account user;
    std::vector<Bind> binds;
    Pins pins; ///< of an instance that was found: those of its record
    ProtectedNames protects;
    std::optional<Supervision> supervision; ///< of deny patterns
    Plan plan;
    std::vector<std::string> notes; ///< limits that are not held, asked for as best effort

    /// Nothing but one command of its user will run: who calls is known to the supervisor of deny patterns.
    [[nodiscard]] Status for_one_command();
    /// After the launch: closes what the sandbox itself holds now.
    void let_go();
};

/// Set-id programs gain privileges inside: those of the range's own root. Then there is no no_new_privs, and
/// filters are installed only while a process still has capabilities.
[[nodiscard]] inline bool may_gain(const SandboxSpec& spec, const Identity& identity)
{
    return spec.policy.privileges == policy::Privileges::Sudo && identity.mode == IdMode::Mapped;
}

/// A pattern narrows what other rules give; alone it would leave nothing to run a command with.
[[nodiscard]] Status check_patterns(const policy::BoundFiles& files);

/// Validates, admits the policy, finds the template, leases ids, opens mounts. Every refusal
/// happens here; nothing of the sandbox exists yet. `pools` may be null; `known` are the template's
/// directories where they were found before, and `pins` what its mounts were.
[[nodiscard]] Result<std::unique_ptr<Prepared>>
prepare(const StateDir& state, const SandboxSpec& spec, const LimitAvailability& limits, Pools* pools,
        const Pools::Progress& progress, const RootLayers* known = nullptr, const Pins* pins = nullptr);

} // namespace berth::local
