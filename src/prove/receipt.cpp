#include "prove/receipt.hpp"

#include <algorithm>

#include "base/brief.hpp"
#include "base/sha256.hpp"
#include "policy/document.hpp"

namespace berth::prove {

std::string_view to_string(Verdict verdict) noexcept
{
    switch (verdict) {
    case Verdict::Held: return "held";
    case Verdict::NotHeld: return "not_held";
    case Verdict::Unclear: return "unclear";
    case Verdict::Absent: return "absent";
    }
    return "unclear";
}

namespace {

bool refused(const Tried& one) { return one.verdict == Verdict::Held && one.must == Must::Fail; }
bool wrong(const Tried& one) { return one.verdict == Verdict::NotHeld || one.verdict == Verdict::Unclear; }

} // namespace

bool Receipt::held() const
{
    return std::ranges::none_of(probes, wrong) && std::ranges::any_of(probes, refused);
}

std::string Receipt::failure() const
{
    const auto found = std::ranges::find_if(probes, wrong);
    if (found == probes.end()) return held() ? "" : "nothing that must fail could be tried";
    return fmt::format("{} (probe {} as {}, which must {}: {})", found->rule, found->probe, found->user,
                       to_string(found->must), found->saw);
}

const Promised* Receipt::promise(std::string_view rule) const
{
    const auto found = std::ranges::find(rules, rule, &Promised::rule);
    return found == rules.end() ? nullptr : &*found;
}

void tell_hollow_rules(Receipt& receipt)
{
    std::vector<std::string> rules;
    for (const auto& one : receipt.probes)
        if (one.must == Must::Fail && std::ranges::find(rules, one.rule) == rules.end())
            rules.push_back(one.rule);
    for (const auto& rule : rules) {
        const auto met = [&](const Tried& one) { return one.rule == rule && (refused(one) || wrong(one)); };
        const auto told = [&](const Untried& one) { return one.rule == rule; };
        if (std::ranges::none_of(receipt.probes, met) && std::ranges::none_of(receipt.untried, told))
            receipt.untried.push_back({rule, "there was nothing that a wall could have refused"});
    }
}

std::string policy_hash(const policy::Policy& policy)
{
    auto nameless = policy;
    nameless.name.clear();
    return "sha256:" + sha256_hex(json::dump(policy::to_json(nameless)));
}

json::Object to_json(const Receipt& receipt)
{
    json::Object out;
    out["id"] = receipt.id;
    out["sandbox"] = receipt.sandbox;
    out["generation"] = receipt.generation;
    out["backend"] = receipt.backend;
    out["policy"] = receipt.policy;
    out["policy_hash"] = receipt.policy_hash;
    out["kernel"] = receipt.kernel;
    out["time"] = rfc3339(receipt.time);
    out["held"] = receipt.held();
    json::Array rules;
    for (const auto& one : receipt.rules)
        rules.emplace_back(json::Object{
            {"rule", one.rule}, {"tier", std::string_view(policy::to_string(one.tier))}, {"how", one.how}});
    out["rules"] = std::move(rules);
    json::Array probes;
    for (const auto& one : receipt.probes) {
        json::Object probe;
        probe["rule"] = one.rule;
        probe["probe"] = one.probe;
        probe["must"] = to_string(one.must);
        probe["user"] = one.user;
        probe["verdict"] = to_string(one.verdict);
        probe["sure"] = one.sure;
        probe["saw"] = one.saw;
        probes.emplace_back(std::move(probe));
    }
    out["probes"] = std::move(probes);
    json::Array untried;
    for (const auto& one : receipt.untried)
        untried.emplace_back(json::Object{{"rule", one.rule}, {"why", one.why}});
    out["untried"] = std::move(untried);
    return out;
}

} // namespace berth::prove
