#pragma once

#include <string>
#include <vector>

#include "backend/local/identity.hpp"
#include "backend/local/plan.hpp"
#include "policy/demand.hpp"

namespace berth::local {

/// Which limits control groups can hold here, and what would help where they cannot.
struct LimitAvailability {
    policy::Holding memory;
    policy::Holding cpu;
    policy::Holding pids;
};

[[nodiscard]] int landlock_abi();

/// Why patterns of this policy cannot be held here; empty: they can.
[[nodiscard]] std::string lacks_for_patterns(const policy::Policy* policy);

/// At which tier each kind of rule is held on this machine, by what mechanism. `policy`: some rules cannot be
/// held beside others; null: whatever it says.
[[nodiscard]] policy::Holdings hold(const Identity& identity, const RootLayers& layers,
                                    const LimitAvailability& limits, const policy::Policy* policy = nullptr);

} // namespace berth::local
