// A policy document may come from a client nobody trusts, and a rule it loses is a hole. So it is read
// strictly: what is not understood is refused, and so is what could be understood in two ways.
#include "policy/document.hpp"

#include <algorithm>
#include <array>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "policy/document_read.hpp"
#include "policy/document_toml.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

constexpr Bytes kMaxDocument = 1_MiB;
constexpr std::size_t kMaxPolicyName = 128;
constexpr std::size_t kMaxDevices = 64;

Status read_name(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto name, at.string());
    if (name.empty() || name.size() > kMaxPolicyName)
        return at.refuse("a name has 1 to {} bytes", kMaxPolicyName);
    if (const auto plain = check_printable(name); !plain) return at.refuse("{}", plain.error().message);
    policy.name = name;
    return {};
}

/// Runs before every other field: they add to it.
Status read_extends(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto name, at.string());
    auto base = preset(name);
    if (!base) return at.refuse("{}", base.error().message);
    policy = *std::move(base);
    return {};
}

Status read_privileges(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto word, at.string());
    if (word != "none" && word != "sudo")
        return at.refuse("no privileges '{}': none or sudo", printable(word, 60));
    policy.privileges = word == "sudo" ? Privileges::Sudo : Privileges::None;
    return {};
}

Status read_nested(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(policy.nested_namespaces, at.boolean());
    return {};
}

Status read_devices(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto items, at.array());
    if (items.empty()) return at.refuse("an empty list: leave the field out for no devices");
    if (items.size() > kMaxDevices) return at.refuse("{} devices; at most {}", items.size(), kMaxDevices);
    policy.devices.clear();
    for (const auto& item : items) {
        BERTH_TRY(const auto text, item.string());
        const auto target = parse_target(text);
        if (!target) return item.refuse("{}", target.error().message);
        const auto* path = std::get_if<Path>(&*target);
        if (path == nullptr || !path->text.starts_with("/dev/"))
            return item.refuse("'{}' is not a path below /dev", printable(text, 80));
        if (std::ranges::find(policy.devices, path->text) != policy.devices.end())
            return item.refuse("'{}' stands in the list already", printable(text, 80));
        policy.devices.push_back(path->text);
    }
    return {};
}

struct Field {
    std::string_view name;
    Status (*read)(const json::Reader& at, Policy& policy);
};

constexpr std::array kFields{
    Field{"extends", read_extends},       Field{"name", read_name},
    Field{"files", read_files},           Field{"protect", read_protect},
    Field{"network", read_network},       Field{"limits", read_limits},
    Field{"privileges", read_privileges}, Field{"nested_namespaces", read_nested},
    Field{"devices", read_devices},
};

/// Fields are read in the order of the table, not of the document, so that the order cannot matter.
Result<Policy> read_policy(const json::Value& value)
{
    const json::Reader document(value);
    std::vector<std::string> known;
    for (const auto& field : kFields) known.emplace_back(field.name);
    BERTH_CHECK(document.only(known));
    BERTH_TRY(const auto members, document.members());

    BERTH_TRY(Policy policy, preset("sandbox"));
    for (const auto& field : kFields) {
        for (const auto& [name, at] : members)
            if (name == field.name) BERTH_CHECK(field.read(at, policy));
        // The preset's name would call the document something it is not.
        if (field.read == read_extends) policy.name.clear();
    }
    BERTH_CHECK(check_contradictions(document, policy));
    return policy;
}

} // namespace

Result<Policy> parse(std::string_view text, Syntax syntax)
{
    if (text.size() > kMaxDocument.count)
        return fail(Code::Invalid, "policy of {} bytes is over the limit of {}", text.size(),
                    kMaxDocument.count);
    if (syntax == Syntax::Toml) {
        BERTH_TRY(const auto value, toml_to_json(text));
        return read_policy(value);
    }
    BERTH_TRY(const auto value, json::parse(text, {.bytes = kMaxDocument.count, .depth = 16}));
    return read_policy(value);
}

Result<Policy> load(const std::string& name_or_path)
{
    const bool toml = name_or_path.ends_with(".toml");
    if (!toml && !name_or_path.ends_with(".json")) {
        auto named = preset(name_or_path);
        if (!named) named.error().message += "; or a path ending in .json or .toml";
        return named;
    }
    auto policy = [&]() -> Result<Policy> {
        BERTH_TRY(const auto text, read_file(name_or_path, kMaxDocument));
        return parse(text, toml ? Syntax::Toml : Syntax::Json);
    }();
    if (!policy)
        return std::unexpected(
            std::move(policy).error().while_doing("reading policy " + printable(name_or_path)));
    return policy;
}

} // namespace berth::policy
