// The description of the API, made from the table that routes it and the shapes that read and write it.

#include "server/own/api.hpp"
#include "server/own/shapes.hpp"

namespace berth::own {

namespace {

json::Object media_of(std::string_view what)
{
    if (what == "bytes") return {{"application/octet-stream", json::Object{}}};
    if (what == "tar") return {{"application/x-tar", json::Object{}}};
    return {{"application/json", json::Object{{"schema", schema_of_type(what)}}}};
}

json::Object parameter(std::string_view name, std::string_view where, bool required)
{
    return {
        {"name", name}, {"in", where}, {"required", required}, {"schema", json::Object{{"type", "string"}}}};
}

json::Array parameters_of(const std::vector<std::string>& parts, const std::string& query)
{
    json::Array out;
    for (const auto& part : parts)
        if (part.starts_with('{'))
            out.emplace_back(parameter(part.substr(1, part.find_first_of(".}") - 1), "path", true));
    if (query.empty()) return out;
    for (auto name : split(query, ' ')) {
        const bool required = name.ends_with('!');
        if (required) name.pop_back();
        out.emplace_back(parameter(name, "query", required));
    }
    return out;
}

} // namespace

Task<Answer> Api::describe_all(Call&) { co_return http::json_response(200, describe()); }

json::Object Api::describe_one(const http::Router<Handler>::Route& route)
{
    const auto& [work, summary, answers, words] = route.handler;
    json::Object operation;
    operation["summary"] = summary;
    auto parameters = parameters_of(route.parts, words.query);
    if (!parameters.empty()) operation["parameters"] = std::move(parameters);
    if (!words.body.empty()) {
        // One of which every member may be left out may be left out itself.
        const bool form = words.body != "bytes" && words.body != "tar";
        const bool needed = form && schema_of(shape(words.body)).contains("required");
        operation["requestBody"] = json::Object{{"content", media_of(words.body)}, {"required", needed}};
    }
    json::Object content;
    if (!words.answer.empty()) content = media_of(words.answer);
    if (!words.events.empty())
        content["text/event-stream"] =
            json::Object{{"schema", json::Object{{"type", "string"}}}, // each "data:" holds one
                         {"x-event", schema_of_type(words.events)}};
    json::Object responses;
    for (const auto& status : answers) {
        json::Object answer{{"description", "done"}};
        if (!content.empty()) answer["content"] = content;
        responses[status] = std::move(answer);
    }
    responses["default"] = json::Object{{"description", "what went wrong, with the status of its code"},
                                        {"content", media_of("Error")}};
    operation["responses"] = std::move(responses);
    return operation;
}

json::Object Api::describe() const
{
    json::Object paths;
    for (const auto& route : router_.routes()) {
        auto pattern = route.pattern;
        if (pattern.ends_with("...}")) pattern.erase(pattern.size() - 4, 3);
        auto& path = paths[pattern];
        if (!path.is_object()) path = json::Object{};
        std::string method = route.method;
        for (auto& c : method) c = static_cast<char>(c - 'A' + 'a');
        path.as_object()[method] = describe_one(route);
    }
    json::Object schemas;
    for (const auto& one : shapes()) schemas[one.name] = schema_of(one);
    json::Object out;
    out["openapi"] = "3.1.0";
    out["info"] = json::Object{{"title", "berth"}, {"version", "1"}};
    out["paths"] = std::move(paths);
    out["components"] = json::Object{
        {"securitySchemes", json::Object{{"key", json::Object{{"type", "http"}, {"scheme", "bearer"}}}}},
        {"schemas", std::move(schemas)}};
    out["security"] = json::Array{json::Object{{"key", json::Array{}}}};
    return out;
}

} // namespace berth::own
