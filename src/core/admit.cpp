#include "core/admit.hpp"

namespace berth {

using policy::Feature;

namespace {

bool usual_limit(const policy::Demand& demand, const policy::Limits& asked)
{
    const auto usual = policy::preset("sandbox");
    if (!usual) return false;
    if (demand.feature == Feature::LimitPids) return asked.pids == usual->limits.pids;
    if (demand.feature == Feature::LimitOpenFiles) return asked.open_files == usual->limits.open_files;
    return false;
}

} // namespace

policy::Tier accepted_tier(const policy::Holdings& holdings)
{
    const bool elsewhere = holdings.of(Feature::PrivateRoot).tier == policy::Tier::Vendor;
    return elsewhere ? policy::Tier::Vendor : policy::Tier::Outside;
}

Status admit(const SandboxSpec& spec, const policy::Holdings& holdings, std::vector<std::string>& notes)
{
    const policy::Tier accepted = accepted_tier(holdings);
    auto demands = policy::demands(spec.policy, accepted);
    std::erase_if(demands, [&](const policy::Demand& demand) {
        const bool limit = demand.feature == Feature::LimitMemory || demand.feature == Feature::LimitCpu ||
                           demand.feature == Feature::LimitPids;
        const bool best_effort = limit && spec.limit_mode == LimitMode::BestEffort;
        const bool elsewhere = accepted == policy::Tier::Vendor && usual_limit(demand, spec.policy.limits);
        const auto& held = holdings.of(demand.feature);
        if ((!best_effort && !elsewhere) || held.tier >= demand.at_least) return false;
        notes.push_back(fmt::format("not held: {} ({})", demand.why, held.how));
        return true;
    });
    return policy::admit(demands, holdings);
}

} // namespace berth
