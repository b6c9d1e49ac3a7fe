#include <cmath>

#include "base/strings.hpp"
#include "policy/document.hpp"
#include "policy/document_read.hpp"

namespace berth::policy {

namespace {

/// "64MiB": `show` writes "64 MiB" for people, the parser takes it without the space.
std::string compact(Bytes size)
{
    std::string text = show(size);
    std::erase(text, ' ');
    return text;
}

json::Value strings(const std::vector<std::string>& items)
{
    json::Array array;
    for (const auto& item : items) array.emplace_back(item);
    return array;
}

json::Value files(const std::vector<FileRule>& rules)
{
    json::Array array;
    for (const auto& rule : rules) {
        json::Object entry;
        entry[to_string(rule.access)] = to_string(rule.target);
        array.push_back(std::move(entry));
    }
    return array;
}

json::Value network(const Policy& policy)
{
    if (policy.network != Network::Allow || policy.allow.empty())
        return json::Value(to_string(policy.network));
    json::Array array;
    for (const auto& rule : policy.allow) {
        json::Object entry;
        entry["host"] = rule.host;
        if (!rule.ports.empty()) entry["ports"] = json::Array(rule.ports.begin(), rule.ports.end());
        if (!rule.methods.empty()) entry["methods"] = strings(rule.methods);
        array.push_back(std::move(entry));
    }
    json::Object object;
    object["allow"] = std::move(array);
    return object;
}

json::Value count(const std::optional<std::uint64_t>& limit)
{
    // The preset every document extends has these two, so their absence must be said.
    if (!limit) return json::Value(kUnlimited);
    return json::Value(static_cast<std::int64_t>(*limit));
}

json::Value limits(const Limits& limits)
{
    json::Object object;
    if (limits.memory) object["memory"] = compact(*limits.memory);
    if (limits.cpus) {
        const double cpus = *limits.cpus;
        if (cpus == std::floor(cpus))
            object["cpus"] = static_cast<std::int64_t>(cpus);
        else
            object["cpus"] = cpus;
    }
    object["pids"] = count(limits.pids);
    if (limits.disk) object["disk"] = compact(*limits.disk);
    object["open_files"] = count(limits.open_files);
    if (limits.wall_time) object["wall_time"] = show(*limits.wall_time);
    return object;
}

std::string toml_value(const json::Value& value);

std::string toml_array(const json::Array& array)
{
    // Tables one a line; the rest is short.
    const bool tables = !array.empty() && array.front().is_object();
    std::vector<std::string> items;
    for (const auto& item : array) items.push_back(toml_value(item));
    if (tables) return fmt::format("[\n  {},\n]", fmt::join(items, ",\n  "));
    return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string toml_value(const json::Value& value)
{
    if (const auto* array = value.if_array()) return toml_array(*array);
    if (const auto* object = value.if_object()) {
        std::vector<std::string> members;
        for (const auto& member : *object)
            members.push_back(
                fmt::format("{} = {}", std::string_view(member.key()), toml_value(member.value())));
        return fmt::format("{{ {} }}", fmt::join(members, ", "));
    }
    if (const auto* number = value.if_double()) return fmt::format("{}", *number);
    // A JSON string is a TOML basic string, escapes included.
    return json::dump(value);
}

} // namespace

json::Object to_json(const Policy& policy)
{
    json::Object document;
    if (!policy.name.empty()) document["name"] = policy.name;
    if (!policy.files.empty()) document["files"] = files(policy.files);
    if (!policy.protected_names.empty()) document["protect"] = strings(policy.protected_names);
    document["network"] = network(policy);
    document["limits"] = limits(policy.limits);
    if (policy.privileges == Privileges::Sudo) document["privileges"] = "sudo";
    if (policy.nested_namespaces) document["nested_namespaces"] = true;
    if (!policy.devices.empty()) document["devices"] = strings(policy.devices);
    return document;
}

std::string to_toml(const Policy& policy)
{
    // Sections come last: a key after a section's header would belong to it.
    std::string keys;
    std::string sections;
    for (const auto& member : to_json(policy)) {
        const std::string_view name = member.key();
        const auto* object = member.value().if_object();
        if (object == nullptr) {
            keys += fmt::format("{} = {}\n", name, toml_value(member.value()));
            continue;
        }
        sections += fmt::format("\n[{}]\n", name);
        for (const auto& inner : *object)
            sections += fmt::format("{} = {}\n", std::string_view(inner.key()), toml_value(inner.value()));
    }
    return keys + sections;
}

} // namespace berth::policy
