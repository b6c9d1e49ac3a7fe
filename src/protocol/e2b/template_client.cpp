#include "protocol/e2b/template_client.hpp"

#include <algorithm>

#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kMostHeaders = 32;
constexpr std::size_t kLongestUrl = 8192;

std::string_view name_of(BuildStep::Type type)
{
    switch (type) {
    case BuildStep::Type::Copy: return "COPY";
    case BuildStep::Type::Run: return "RUN";
    case BuildStep::Type::Env: return "ENV";
    case BuildStep::Type::Workdir: return "WORKDIR";
    case BuildStep::Type::User: return "USER";
    }
    return "RUN";
}

bool is_header(std::string_view text)
{
    return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

} // namespace

bool is_template_id(std::string_view id) noexcept
{
    return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
               c == '_';
    });
}

std::string new_template_body(const NewTemplate& wish)
{
    json::Object out;
    out["name"] = wish.name;
    if (!wish.tags.empty()) {
        json::Array tags;
        for (const auto& tag : wish.tags) tags.emplace_back(tag);
        out["tags"] = std::move(tags);
    }
    if (wish.cpus != 0) out["cpuCount"] = wish.cpus;
    if (wish.memory_mb != 0) out["memoryMB"] = wish.memory_mb;
    return json::dump(out);
}

Result<RegisteredTemplate> read_registered(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    RegisteredTemplate out;
    BERTH_TRY(out.id, fields::text(reader, "templateID"));
    BERTH_TRY(out.build, fields::text(reader, "buildID"));
    if (!is_template_id(out.id) || !is_template_id(out.build)) return reader.refuse("an id that is none");
    return out;
}

std::string build_start_body(const BuildStart& start, bool force)
{
    json::Object out;
    if (!start.from_template.empty())
        out["fromTemplate"] = start.from_template;
    else if (!start.from_image.empty())
        out["fromImage"] = start.from_image;
    if (!start.username.empty()) {
        json::Object login;
        login["type"] = "registry";
        login["username"] = start.username;
        login["password"] = start.password;
        out["fromImageRegistry"] = std::move(login);
    }
    out["force"] = force;
    json::Array steps;
    for (const auto& step : start.steps) {
        json::Object one;
        one["type"] = name_of(step.type);
        json::Array args;
        for (const auto& arg : step.args) args.emplace_back(arg);
        one["args"] = std::move(args);
        one["force"] = false;
        if (!step.files_hash.empty()) one["filesHash"] = step.files_hash;
        steps.emplace_back(std::move(one));
    }
    out["steps"] = std::move(steps);
    if (!start.start_cmd.empty()) out["startCmd"] = start.start_cmd;
    if (!start.ready_cmd.empty()) out["readyCmd"] = start.ready_cmd;
    return json::dump(out);
}

Result<FilesLink> read_files_link(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    FilesLink out;
    BERTH_TRY(out.present, fields::flag(reader, "present"));
    BERTH_TRY(out.url, fields::text(reader, "url"));
    BERTH_TRY(out.headers, fields::texts(reader, "headers"));
    if (!out.present && (out.url.empty() || out.url.size() > kLongestUrl))
        return reader.refuse("no place for the files");
    if (out.headers.size() > kMostHeaders) return reader.refuse("too many headers");
    for (const auto& [name, value] : out.headers)
        if (name.empty() || !is_header(name) || name.find_first_of(": ") != std::string::npos ||
            !is_header(value))
            return reader.refuse("a header that is none");
    return out;
}

Result<BuildStatus> read_build_status(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    BuildStatus out;
    BERTH_TRY(out.state, fields::text(reader, "status"));
    BERTH_TRY(const auto lines, fields::find(reader, "logEntries"));
    if (lines) {
        BERTH_TRY(const auto list, lines->array());
        for (const auto& one : list) {
            BERTH_TRY(auto line, read_line(one.value()));
            out.lines.push_back(std::move(line));
        }
    }
    BERTH_TRY(const auto reason, fields::find(reader, "reason"));
    if (!reason) return out;
    BERTH_TRY(out.failure, fields::text(*reason, "message"));
    BERTH_TRY(out.failed_step, fields::text(*reason, "step"));
    return out;
}

} // namespace berth::e2b
