#pragma once

#include <functional>
#include <memory>
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
    ProtectedNames protects;
    Plan plan;
    std::vector<std::string> notes; ///< limits that are not held, asked for as best effort

    /// After the launch: closes what the sandbox itself holds now.
    void let_go();
};

/// Validates, admits the policy, finds the template, leases ids, opens mounts. Every refusal
/// happens here; nothing of the sandbox exists yet. `pools` may be null; `known` are the template's
/// directories where they were found before.
[[nodiscard]] Result<std::unique_ptr<Prepared>> prepare(const StateDir& state, const SandboxSpec& spec,
                                                        const LimitAvailability& limits, Pools* pools,
                                                        const Pools::Progress& progress,
                                                        const RootLayers* known = nullptr);

} // namespace berth::local
