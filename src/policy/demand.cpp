#include "policy/demand.hpp"

#include <algorithm>
#include <array>

#include "base/strings.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

constexpr std::array<std::pair<Feature, std::string_view>, 19> kFeatures{{
    {Feature::PrivateRoot, "private_root"},
    {Feature::ReadOnlyPaths, "read_only_paths"},
    {Feature::WritablePaths, "writable_paths"},
    {Feature::DeniedPaths, "denied_paths"},
    {Feature::Globs, "globs"},
    {Feature::ProtectedNames, "protected_names"},
    {Feature::NetworkOff, "network_off"},
    {Feature::NetworkAllow, "network_allow"},
    {Feature::NetworkOpen, "network_open"},
    {Feature::NetworkHost, "network_host"},
    {Feature::LimitMemory, "limit_memory"},
    {Feature::LimitCpu, "limit_cpu"},
    {Feature::LimitPids, "limit_pids"},
    {Feature::LimitDisk, "limit_disk"},
    {Feature::LimitOpenFiles, "limit_open_files"},
    {Feature::LimitWallTime, "limit_wall_time"},
    {Feature::Sudo, "sudo"},
    {Feature::NestedNamespaces, "nested_namespaces"},
    {Feature::Devices, "devices"},
}};

Feature feature_of(const FileRule& rule)
{
    if (is_pattern(rule.target)) return Feature::Globs;
    switch (rule.access) {
    case Access::Deny: return Feature::DeniedPaths;
    case Access::Read: return Feature::ReadOnlyPaths;
    case Access::Write: return Feature::WritablePaths;
    }
    return Feature::DeniedPaths;
}

Feature feature_of(Network network)
{
    switch (network) {
    case Network::Off: return Feature::NetworkOff;
    case Network::Allow: return Feature::NetworkAllow;
    case Network::Open: return Feature::NetworkOpen;
    case Network::Host: return Feature::NetworkHost;
    }
    return Feature::NetworkOff;
}

std::string in_words(const NetworkRule& rule)
{
    std::string text = "network allow " + printable(rule.host);
    if (!rule.ports.empty()) text += fmt::format(" port {}", fmt::join(rule.ports, ","));
    if (!rule.methods.empty()) text += printable(fmt::format(" {}", fmt::join(rule.methods, ",")));
    return text;
}

/// Collects demands that all accept the same tier.
class Collector {
public:
    explicit Collector(Tier at_least) : at_least_(at_least) {}
    void add(Feature feature, std::string why) { all_.push_back({feature, at_least_, std::move(why)}); }
    std::vector<Demand> take() && { return std::move(all_); }

private:
    Tier at_least_;
    std::vector<Demand> all_;
};

void add_files(Collector& out, const Policy& policy)
{
    // Without rules the whole root is writable, so it must not be the host's.
    if (policy.files.empty()) return out.add(Feature::PrivateRoot, "a private root");
    const Target root = Symbolic{Symbol::Root, {}};
    bool whole = false;
    for (const auto& rule : policy.files) {
        whole |= rule.target == root || rule.target == Target(Path{"/"});
        out.add(feature_of(rule),
                fmt::format("{} {}", to_string(rule.access), printable(to_string(rule.target))));
    }
    if (!whole) out.add(Feature::DeniedPaths, "deny everything else");
}

void add_network(Collector& out, const Policy& policy)
{
    const Feature feature = feature_of(policy.network);
    if (policy.network != Network::Allow || policy.allow.empty())
        return out.add(feature, fmt::format("network {}", to_string(policy.network)));
    for (const auto& rule : policy.allow) out.add(feature, in_words(rule));
}

void add_limits(Collector& out, const Limits& limits)
{
    if (limits.memory) out.add(Feature::LimitMemory, "memory " + show(*limits.memory));
    if (limits.cpus) out.add(Feature::LimitCpu, fmt::format("cpus {}", *limits.cpus));
    if (limits.pids) out.add(Feature::LimitPids, fmt::format("pids {}", *limits.pids));
    if (limits.disk) out.add(Feature::LimitDisk, "disk " + show(*limits.disk));
    if (limits.open_files) out.add(Feature::LimitOpenFiles, fmt::format("open files {}", *limits.open_files));
    if (limits.wall_time) out.add(Feature::LimitWallTime, "wall time " + show(*limits.wall_time));
}

std::string reason(const Demand& demand, const Holding& holding)
{
    if (holding.tier == Tier::None) return holding.how;
    return fmt::format("held only {} by {}, {} is asked", to_string(holding.tier), holding.how,
                       to_string(demand.at_least));
}

} // namespace

std::string_view to_string(Tier tier) noexcept
{
    switch (tier) {
    case Tier::None: return "none";
    case Tier::Inside: return "inside";
    case Tier::Vendor: return "vendor";
    case Tier::Outside: return "outside";
    }
    return "?";
}

std::string_view to_string(Feature feature) noexcept
{
    for (const auto& [known, name] : kFeatures)
        if (known == feature) return name;
    return "?";
}

std::vector<Feature> all_features()
{
    std::vector<Feature> all;
    for (const auto& entry : kFeatures) all.push_back(entry.first);
    return all;
}

void Holdings::set(Feature feature, Tier tier, std::string how) { held_[feature] = {tier, std::move(how)}; }

const Holding& Holdings::of(Feature feature) const
{
    static const Holding kNone{Tier::None, "this backend does not hold it"};
    const auto found = held_.find(feature);
    return found == held_.end() ? kNone : found->second;
}

std::vector<Demand> demands(const Policy& policy, Tier at_least)
{
    Collector out(at_least);
    add_files(out, policy);
    if (!policy.protected_names.empty())
        out.add(Feature::ProtectedNames,
                printable(fmt::format("protect {}", fmt::join(policy.protected_names, " ")), 400));
    add_network(out, policy);
    add_limits(out, policy.limits);
    if (policy.privileges == Privileges::Sudo) out.add(Feature::Sudo, "privileges sudo");
    if (policy.nested_namespaces) out.add(Feature::NestedNamespaces, "nested namespaces");
    for (const auto& device : policy.devices) out.add(Feature::Devices, "device " + printable(device));
    return std::move(out).take();
}

Status admit(const std::vector<Demand>& demands, const Holdings& have)
{
    struct Unmet {
        std::string reason;
        std::vector<std::string> rules;
    };
    std::vector<Unmet> unmet;
    // Rules that fail for one reason share it: forty globs must not repeat it forty times.
    for (const auto& [demand, holding, met] : explain(demands, have)) {
        if (met) continue;
        const std::string why_not = reason(demand, holding);
        auto group = std::ranges::find(unmet, why_not, &Unmet::reason);
        if (group == unmet.end()) group = unmet.insert(unmet.end(), {why_not, {}});
        group->rules.push_back(demand.why);
    }
    if (unmet.empty()) return {};
    std::vector<std::string> lines;
    for (const auto& group : unmet)
        lines.push_back(fmt::format("{} ({})", fmt::join(group.rules, ", "), group.reason));
    return fail(Code::Unsupported, "cannot be held here: {}", fmt::join(lines, "; "));
}

std::vector<Explained> explain(const std::vector<Demand>& demands, const Holdings& have)
{
    std::vector<Explained> all;
    for (const auto& demand : demands) {
        const Holding& holding = have.of(demand.feature);
        all.push_back({demand, holding, holding.tier >= demand.at_least});
    }
    return all;
}

} // namespace berth::policy
