#include "server/own/shapes.hpp"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

namespace berth::own {

namespace {

bool take_end(std::string_view& type, std::string_view end)
{
    if (!type.ends_with(end)) return false;
    type.remove_suffix(end.size());
    return true;
}

json::Object named(std::string_view type)
{
    if (type == "time") return {{"type", "string"}, {"format", "date-time"}};
    if (type == "bytes") return {{"type", "string"}, {"contentEncoding", "base64"}};
    if (type == "policy")
        return {{"oneOf", json::Array{json::Object{{"type", "string"}}, json::Object{{"type", "object"}}}}};
    for (const std::string_view plain : {"string", "integer", "number", "boolean", "object"})
        if (type == plain) return {{"type", type}};
    return {{"$ref", fmt::format("#/components/schemas/{}", shape(type).name)}};
}

} // namespace

const Shape& shape(std::string_view name)
{
    const auto found = std::ranges::find(shapes(), name, &Shape::name);
    assert(found != shapes().end());
    return *found;
}

std::vector<std::string> members_of(std::string_view name)
{
    std::vector<std::string> out;
    for (const auto& member : shape(name).members) out.emplace_back(member.name);
    return out;
}

json::Object schema_of_type(std::string_view type)
{
    take_end(type, "?");
    if (take_end(type, "|null"))
        return {{"anyOf", json::Array{schema_of_type(type), json::Object{{"type", "null"}}}}};
    if (type.starts_with('[')) {
        type.remove_prefix(1);
        take_end(type, "]");
        return {{"type", "array"}, {"items", schema_of_type(type)}};
    }
    if (type.starts_with('{')) {
        type.remove_prefix(1);
        take_end(type, "}");
        return {{"type", "object"}, {"additionalProperties", schema_of_type(type)}};
    }
    return named(type);
}

json::Object schema_of(const Shape& shape)
{
    json::Object properties;
    json::Array required;
    for (const auto& member : shape.members) {
        auto one = schema_of_type(member.type);
        if (!member.says.empty()) one["description"] = member.says;
        properties[member.name] = std::move(one);
        if (!member.type.ends_with('?')) required.emplace_back(member.name);
    }
    json::Object out;
    out["type"] = "object";
    out["properties"] = std::move(properties);
    if (!required.empty()) out["required"] = std::move(required);
    // Whoever reads what we give must bear members that come later.
    if (shape.taken) out["additionalProperties"] = false;
    return out;
}

} // namespace berth::own
