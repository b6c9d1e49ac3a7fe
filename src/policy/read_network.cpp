#include <algorithm>
#include <map>

#include "base/strings.hpp"
#include "policy/document_read.hpp"
#include "policy/network_host.hpp"

namespace berth::policy {

namespace {

constexpr std::size_t kMaxDestinations = 4096;
constexpr std::size_t kMaxPorts = 256;
constexpr std::size_t kMaxMethods = 32;

Status read_ports(const json::Reader& at, NetworkRule& rule)
{
    BERTH_TRY(const auto items, at.array());
    if (items.empty()) return at.refuse("an empty list: leave the field out for every port");
    if (items.size() > kMaxPorts) return at.refuse("{} ports; at most {}", items.size(), kMaxPorts);
    for (const auto& item : items) {
        BERTH_TRY(const auto number, item.integer(1, 65535));
        const auto port = static_cast<std::uint16_t>(number);
        if (std::ranges::find(rule.ports, port) != rule.ports.end())
            return item.refuse("port {} twice", port);
        rule.ports.push_back(port);
    }
    return {};
}

Status read_methods(const json::Reader& at, NetworkRule& rule)
{
    BERTH_TRY(const auto items, at.array());
    if (items.empty()) return at.refuse("an empty list: leave the field out for every method");
    if (items.size() > kMaxMethods) return at.refuse("{} methods; at most {}", items.size(), kMaxMethods);
    for (const auto& item : items) {
        BERTH_TRY(const auto method, item.string());
        // Methods are case-sensitive (RFC 9110): "get" would be a rule that never matches.
        const bool upper = std::ranges::all_of(method, [](char c) { return c >= 'A' && c <= 'Z'; });
        if (method.empty() || method.size() > 32 || !upper)
            return item.refuse("'{}' is not an HTTP method like GET", printable(method, 60));
        if (std::ranges::find(rule.methods, method) != rule.methods.end())
            return item.refuse("method {} twice", method);
        rule.methods.push_back(method);
    }
    return {};
}

Result<NetworkRule> read_destination(const json::Reader& at)
{
    BERTH_CHECK(at.only({"host", "ports", "methods"}));
    NetworkRule rule;
    BERTH_TRY(const auto host, at.at("host"));
    BERTH_TRY(const auto text, host.string());
    auto canonical = canonical_host(text);
    if (!canonical) return host.refuse("{}", canonical.error().message);
    rule.host = *std::move(canonical);
    BERTH_TRY(const auto members, at.members());
    for (const auto& [name, value] : members) {
        if (name == "ports") BERTH_CHECK(read_ports(value, rule));
        if (name == "methods") BERTH_CHECK(read_methods(value, rule));
    }
    return rule;
}

/// One rule as a key, whatever the order its ports and methods stand in.
std::string identity(NetworkRule rule)
{
    std::ranges::sort(rule.ports);
    std::ranges::sort(rule.methods);
    return fmt::format("{} {} {}", rule.host, fmt::join(rule.ports, ","), fmt::join(rule.methods, ","));
}

Status read_allow(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto items, at.array());
    if (items.size() > kMaxDestinations)
        return at.refuse("{} destinations; at most {}", items.size(), kMaxDestinations);
    std::map<std::string, std::string> seen;
    for (const auto& item : items) {
        BERTH_TRY(auto rule, read_destination(item));
        const auto [before, fresh] = seen.emplace(identity(rule), item.path());
        if (!fresh) return item.refuse("the same destination stands at {} already", before->second);
        policy.allow.push_back(std::move(rule));
    }
    return {};
}

} // namespace

Status read_network(const json::Reader& at, Policy& policy)
{
    policy.allow.clear();
    if (at.value().is_object()) {
        BERTH_CHECK(at.only({"allow"}));
        BERTH_TRY(const auto list, at.at("allow"));
        policy.network = Network::Allow;
        return read_allow(list, policy);
    }
    if (!at.value().is_string())
        return at.refuse("expected \"off\", \"open\", \"host\" or an object with \"allow\"");
    BERTH_TRY(const auto word, at.string());
    for (const Network network : {Network::Off, Network::Allow, Network::Open, Network::Host}) {
        if (word != to_string(network)) continue;
        policy.network = network;
        return {};
    }
    const std::string near = nearest(word.substr(0, 60), {"off", "allow", "open", "host"});
    if (near.empty()) return at.refuse("no network '{}': off, allow, open or host", printable(word, 60));
    return at.refuse("no network '{}', did you mean \"{}\"?", printable(word, 60), near);
}

} // namespace berth::policy
