#include "protocol/e2b/template.hpp"

#include <algorithm>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"
#include "protocol/e2b/listing.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kLongestCommand = std::size_t{128} << 10;
constexpr std::int64_t kLeastMemory = 128; // MB

struct StepForm {
    std::string_view name;
    BuildStep::Type type;
    std::size_t least;
    std::size_t most;
};

constexpr StepForm kForms[] = {
    {"COPY", BuildStep::Type::Copy, 2, 4},  {"RUN", BuildStep::Type::Run, 1, 2},
    {"ENV", BuildStep::Type::Env, 2, 1000}, {"WORKDIR", BuildStep::Type::Workdir, 1, 1},
    {"USER", BuildStep::Type::User, 1, 1},
};

Result<std::vector<std::string>> texts_of(const json::Reader& from, std::string_view name, std::size_t most)
{
    BERTH_TRY(const auto there, from.find(name));
    if (!there) return std::vector<std::string>{};
    BERTH_TRY(auto all, there->strings());
    if (all.size() > most) return there->refuse("{} entries; {} at most", all.size(), most);
    return all;
}

Result<BuildStep> read_step(const json::Reader& at)
{
    BERTH_TRY(const auto type, fields::text(at, "type"));
    const auto* const form = std::ranges::find(kForms, type, &StepForm::name);
    if (form == std::end(kForms)) return at.refuse("a step of type '{}' is not known", printable(type, 40));
    BuildStep out{.type = form->type};
    BERTH_TRY(out.args, texts_of(at, "args", form->most));
    if (out.args.size() < form->least)
        return at.refuse("{} needs {} arguments, not {}", type, form->least, out.args.size());
    for (const auto& arg : out.args)
        if (arg.find('\0') != std::string::npos || arg.size() > kLongestCommand)
            return at.refuse("an argument of {} is too long or has a NUL byte", type);
    if (form->type == BuildStep::Type::Env && out.args.size() % 2 != 0)
        return at.refuse("ENV takes names and values in turn");
    if (form->type == BuildStep::Type::Copy) {
        out.args.resize(4);
        BERTH_TRY(out.files_hash, fields::text(at, "filesHash"));
        if (!is_files_hash(out.files_hash)) return at.refuse("COPY without the hash of its files");
    }
    return out;
}

Status read_login(const json::Reader& from, BuildStart& out)
{
    BERTH_TRY(const auto login, from.find("fromImageRegistry"));
    if (!login) return {};
    BERTH_TRY(const auto type, fields::text(*login, "type"));
    if (type != "registry")
        return fail(Code::Unsupported,
                    "fromImageRegistry of type '{}': this server logs in with a name and a password alone",
                    printable(type, 40));
    BERTH_TRY(out.username, fields::text(*login, "username"));
    BERTH_TRY(out.password, fields::text(*login, "password"));
    if (out.username.find(':') != std::string::npos) return login->refuse("a user name cannot have a colon");
    return {};
}

} // namespace

bool is_files_hash(std::string_view text) noexcept
{
    return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<NewTemplate> read_new_template(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    NewTemplate out;
    BERTH_TRY(out.name, fields::text(reader, "name"));
    if (out.name.empty()) {
        BERTH_TRY(out.name, fields::text(reader, "alias"));
    }
    if (out.name.empty()) return reader.refuse("name is missing");
    BERTH_TRY(out.tags, texts_of(reader, "tags", kMostTags));
    BERTH_TRY(const auto cpus, fields::whole(reader, "cpuCount", 0, 1024));
    BERTH_TRY(const auto memory, fields::whole(reader, "memoryMB", 0, 1 << 24));
    // With less nothing would start, and the client would not know why.
    if (memory != 0 && memory < kLeastMemory)
        return reader.refuse("memoryMB must be {} or more", kLeastMemory);
    out.cpus = static_cast<unsigned>(cpus);
    out.memory_mb = static_cast<unsigned>(memory);
    return out;
}

std::string to_string(const BuildStep& step)
{
    std::string_view name = "RUN";
    for (const auto& form : kForms)
        if (form.type == step.type) name = form.name;
    switch (step.type) {
    case BuildStep::Type::Run: return fmt::format("RUN {}", printable(step.args[0], 300));
    case BuildStep::Type::Copy:
        return fmt::format("COPY {} {}", printable(step.args[0], 150), printable(step.args[1], 150));
    // A value may be a secret.
    case BuildStep::Type::Env: return fmt::format("ENV {}", printable(step.args[0], 150));
    default: return fmt::format("{} {}", name, printable(step.args[0], 150));
    }
}

Result<BuildStart> read_build_start(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    BuildStart out;
    BERTH_TRY(out.from_image, fields::text(reader, "fromImage"));
    BERTH_TRY(out.from_template, fields::text(reader, "fromTemplate"));
    if (!out.from_image.empty() && !out.from_template.empty())
        return reader.refuse("fromImage and fromTemplate exclude each other");
    BERTH_CHECK(read_login(reader, out));
    BERTH_TRY(out.start_cmd, fields::text(reader, "startCmd"));
    BERTH_TRY(out.ready_cmd, fields::text(reader, "readyCmd"));
    for (const auto& one : {out.start_cmd, out.ready_cmd})
        if (one.find('\0') != std::string::npos || one.size() > kLongestCommand)
            return reader.refuse("startCmd or readyCmd is too long or has a NUL byte");
    BERTH_TRY(const auto steps, reader.find("steps"));
    if (!steps) return out;
    BERTH_TRY(const auto all, steps->array());
    if (all.size() > kMostSteps) return steps->refuse("{} steps; {} at most", all.size(), kMostSteps);
    for (const auto& one : all) {
        BERTH_TRY(auto step, read_step(one));
        out.steps.push_back(std::move(step));
    }
    return out;
}

Result<TagWish> read_tags(std::string_view text, std::string_view name_field)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    TagWish out;
    BERTH_TRY(out.name, fields::text(reader, name_field));
    if (out.name.empty()) return reader.refuse("{} is missing", name_field);
    BERTH_TRY(out.tags, texts_of(reader, "tags", kMostTags));
    if (out.tags.empty()) return reader.refuse("no tags");
    return out;
}

Result<bool> read_public(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    return fields::flag(json::Reader(document), "public");
}

json::Object line_json(const BuildLine& line)
{
    json::Object out;
    out["timestamp"] = rfc3339(line.time);
    out["level"] = line.level;
    out["message"] = line.message;
    if (!line.step.empty()) out["step"] = line.step;
    return out;
}

Result<BuildLine> read_line(const json::Value& value)
{
    const json::Reader reader(value);
    BuildLine out;
    BERTH_TRY(const auto time, fields::text(reader, "timestamp"));
    BERTH_TRY(out.time, parse_rfc3339(time));
    BERTH_TRY(out.level, fields::text(reader, "level"));
    BERTH_TRY(out.message, fields::text(reader, "message"));
    BERTH_TRY(out.step, fields::text(reader, "step"));
    return out;
}

} // namespace berth::e2b
