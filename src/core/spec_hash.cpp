#include "core/spec_hash.hpp"

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "base/sha256.hpp"
#include "core/spec_json.hpp"

namespace berth {

namespace {

/// Keys sorted, no white space: one document has one text.
json::Value sorted(const json::Value& value)
{
    if (const auto* object = value.if_object()) {
        std::vector<std::string> names;
        for (const auto& member : *object) names.emplace_back(member.key());
        std::ranges::sort(names);
        json::Object out;
        for (const auto& name : names) out[name] = sorted(object->at(name));
        return out;
    }
    if (const auto* array = value.if_array()) {
        json::Array out;
        for (const auto& one : *array) out.push_back(sorted(one));
        return out;
    }
    // No fraction is printed the same way everywhere; the only ones are processors.
    if (const auto* number = value.if_double()) return std::llround(*number * 1000);
    return value;
}

} // namespace

std::string spec_hash(const SandboxSpec& spec)
{
    SandboxSpec counted = spec;
    counted.id.clear();
    counted.name.clear();
    if (counted.hostname.empty()) counted.hostname = host_name(counted);
    counted.labels.clear();
    counted.policy.name.clear();
    std::ranges::sort(counted.mounts, {}, &Mount::target);
    std::ranges::sort(counted.volumes, {}, &Volume::target);
    for (auto& volume : counted.volumes) volume.source.clear();
    json::Object document = to_json(counted);
    document["v"] = 1;
    return "v1-" + sha256_hex(json::dump(sorted(document))).substr(0, 32);
}

} // namespace berth
