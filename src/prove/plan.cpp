#include <algorithm>

#include "core/admit.hpp"
#include "policy/bind.hpp"
#include "prove/probe.hpp"

namespace berth::prove {

namespace {

/// A rule that the backend does not hold, which its record says too, is not promised and not tried.
void leave_out_unheld(const Ground& ground, Plan& out)
{
    const auto demands = policy::demands(ground.spec.policy, accepted_tier(ground.have.holds));
    for (const auto& line : policy::explain(demands, ground.have.holds)) {
        if (line.met) continue;
        std::erase_if(out.probes, [&](const Probe& probe) { return probe.rule == line.demand.why; });
        std::erase_if(out.untried, [&](const Untried& one) { return one.rule == line.demand.why; });
        out.untried.push_back({line.demand.why, "not held by this backend: " + line.holding.how});
    }
}

} // namespace

std::string_view to_string(Must must) noexcept { return must == Must::Fail ? "fail" : "pass"; }

bool elsewhere(const Capabilities& have) { return accepted_tier(have.holds) == policy::Tier::Vendor; }

policy::Roots roots_of(const Ground& ground)
{
    policy::Roots roots;
    for (const auto& mount : ground.spec.mounts)
        if (mount.workspace) roots.workspaces.push_back(mount.target);
    const auto& terrain = ground.terrain;
    roots.workspaces.insert(roots.workspaces.end(), terrain.workspaces.begin(), terrain.workspaces.end());
    if (!terrain.tmpdirs.empty()) roots.tmpdirs = terrain.tmpdirs;
    if (!ground.facts.home.empty()) roots.home = ground.facts.home;
    return roots;
}

std::string writable_place(const Ground& ground)
{
    const auto roots = roots_of(ground);
    const auto files = policy::bind_files(ground.spec.policy, roots);
    if (!files) return {};
    if (files->empty()) return ground.terrain.temporary.empty() ? "/tmp" : ground.terrain.temporary;
    std::vector<std::string> places{"/tmp", "/var/tmp", roots.home};
    for (const auto& rule : files->rules)
        if (rule.access == policy::Access::Write && !rule.path.empty()) places.push_back(rule.path);
    const auto found = std::ranges::find_if(
        places, [&](const auto& place) { return files->decide(place) == policy::Access::Write; });
    return found == places.end() ? std::string{} : *found;
}

Result<Plan> plan(const Ground& ground)
{
    Plan out;
    BERTH_CHECK(plan_files(ground, out));
    plan_host(ground, out);
    plan_network(ground, out);
    plan_limits(ground, out);
    plan_kernel(ground, out);
    leave_out_unheld(ground, out);
    return out;
}

Result<Plan> plan_for_another_user(const Ground& ground)
{
    Plan out;
    BERTH_CHECK(plan_files(ground, out));
    plan_host(ground, out);
    plan_kernel(ground, out);
    leave_out_unheld(ground, out);
    // What is granted is granted to the sandbox's own user: a directory of the host has no other.
    std::erase_if(out.probes, [](const Probe& probe) { return probe.must == Must::Pass; });
    out.untried.clear();
    return out;
}

} // namespace berth::prove
