#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.hpp"

namespace berth::policy {

/// Where a rule is held. Weakest first, so `<` reads "is weaker than".
enum class Tier {
    None,    ///< it cannot be held
    Inside,  ///< by a process in the sandbox
    Vendor,  ///< the cloud says so
    Outside, ///< by the kernel or a proxy outside
};

/// A kind of rule a backend may or may not be able to hold.
enum class Feature {
    PrivateRoot,   ///< nothing of the host's file system but what was mounted
    ReadOnlyPaths, ///< read rules on paths
    WritablePaths, ///< write rules on paths
    DeniedPaths,   ///< deny rules on paths
    Globs,         ///< rules on patterns, also for files made later
    ProtectedNames,
    NetworkOff,
    NetworkAllow,
    NetworkOpen,
    NetworkHost,
    LimitMemory,
    LimitCpu,
    LimitPids,
    LimitDisk,
    LimitOpenFiles,
    LimitWallTime,
    Sudo,
    NestedNamespaces,
    Devices,
};

[[nodiscard]] std::string_view to_string(Tier tier) noexcept;
[[nodiscard]] std::string_view to_string(Feature feature) noexcept;
[[nodiscard]] std::vector<Feature> all_features();

/// One rule of a policy, and the weakest tier that is good enough for it.
struct Demand {
    Feature feature;
    Tier at_least = Tier::Outside;
    std::string why; ///< the rule in words: "deny /etc/secret", "memory 64 MiB"
};

/// What a backend can hold on this machine, with the reason where it cannot.
struct Holding {
    Tier tier = Tier::None;
    std::string how; ///< the mechanism, or why there is none and what would help
};

class Holdings {
public:
    void set(Feature feature, Tier tier, std::string how);
    [[nodiscard]] const Holding& of(Feature feature) const;

private:
    std::map<Feature, Holding> held_;
};

/// Every rule of the policy as a demand, in the order of the document.
[[nodiscard]] std::vector<Demand> demands(const Policy& policy, Tier at_least = Tier::Outside);

/// Refuses with Code::Unsupported, naming every demand that is not met and what would help, or passes.
[[nodiscard]] Status admit(const std::vector<Demand>& demands, const Holdings& have);

/// One line of `berth policy explain`: rule, tier, mechanism.
struct Explained {
    Demand demand;
    Holding holding;
    bool met = false;
};
[[nodiscard]] std::vector<Explained> explain(const std::vector<Demand>& demands, const Holdings& have);

} // namespace berth::policy
