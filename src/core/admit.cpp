#include "core/admit.hpp"

namespace berth {

using policy::Feature;

Status admit(const SandboxSpec& spec, const policy::Holdings& holdings, std::vector<std::string>& notes)
{
    auto demands = policy::demands(spec.policy);
    if (spec.limit_mode == LimitMode::BestEffort) {
        std::erase_if(demands, [&](const policy::Demand& demand) {
            const bool limit = demand.feature == Feature::LimitMemory ||
                               demand.feature == Feature::LimitCpu || demand.feature == Feature::LimitPids;
            const auto& held = holdings.of(demand.feature);
            if (!limit || held.tier >= demand.at_least) return false;
            notes.push_back(fmt::format("not held: {} ({})", demand.why, held.how));
            return true;
        });
    }
    return policy::admit(demands, holdings);
}

} // namespace berth
