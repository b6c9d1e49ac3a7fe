#include <algorithm>
#include <map>
#include <set>

#include "base/strings.hpp"
#include "policy/document_read.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

constexpr std::size_t kMaxProtected = 256;

struct Entry {
    FileRule rule;
    std::string place; ///< "/files/3/write"
};

/// Patterns made of nothing but stars: denying those is denying everything.
bool means_everything(const Target& target)
{
    if (target == Target(Symbolic{Symbol::Root, {}})) return true;
    const auto* glob = std::get_if<Glob>(&target);
    return glob != nullptr && std::ranges::all_of(components(glob->text), [](std::string_view part) {
               return part == "*" || part == "**";
           });
}

Result<Entry> read_rule(const json::Reader& at)
{
    BERTH_CHECK(at.only({"read", "write", "deny"}));
    BERTH_TRY(const auto members, at.members());
    if (members.size() != 1) return at.refuse("a rule has one of \"read\", \"write\" and \"deny\"");
    const auto& [word, value] = members.front();
    BERTH_TRY(const auto text, value.string());
    auto target = parse_target(text);
    if (!target) return value.refuse("{}", target.error().message);
    const Access access = word == "read" ? Access::Read : word == "write" ? Access::Write : Access::Deny;
    if (access == Access::Deny && means_everything(*target))
        return value.refuse("denying everything leaves nothing to run; what no rule covers is denied anyway");
    return Entry{{access, *std::move(target)}, value.path()};
}

/// The components of a target that the rule itself writes out.
std::vector<std::string_view> written_components(const Target& target)
{
    if (const auto* symbolic = std::get_if<Symbolic>(&target)) return components(symbolic->below);
    if (const auto* path = std::get_if<Path>(&target)) return components(path->text);
    return components(std::get<Glob>(target).text);
}

} // namespace

Status read_files(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto items, at.array());
    // Read as "nothing allowed" by some and as "no rules" by others.
    if (items.empty()) return at.refuse("an empty list: leave the field out to have no rules of your own");

    std::map<std::string, std::size_t> inherited;
    for (std::size_t i = 0; i < policy.files.size(); ++i) inherited[to_string(policy.files[i].target)] = i;
    std::map<std::string, Entry> seen;
    for (const auto& item : items) {
        BERTH_TRY(Entry entry, read_rule(item));
        const std::string target = to_string(entry.rule.target);
        if (const auto before = seen.find(target); before != seen.end()) {
            const auto& [rule, place] = before->second;
            return fail(Code::Invalid, "{}: \"{}\" is {} at {} already", entry.place, printable(target, 80),
                        to_string(rule.access), place);
        }
        if (const auto base = inherited.find(target); base != inherited.end())
            policy.files[base->second] = entry.rule;
        else
            policy.files.push_back(entry.rule);
        seen.emplace(target, std::move(entry));
    }
    if (const auto few = check_count(policy.files); !few) return at.refuse("{}", few.error().message);
    return {};
}

Status read_protect(const json::Reader& at, Policy& policy)
{
    BERTH_TRY(const auto items, at.array());
    if (items.empty()) return at.refuse("an empty list: it would not remove what a preset protects");
    std::map<std::string, std::string> seen;
    for (const auto& item : items) {
        BERTH_TRY(const auto name, item.string());
        if (const auto plain = check_name(name); !plain) return item.refuse("{}", plain.error().message);
        const auto [before, fresh] = seen.emplace(name, item.path());
        if (!fresh) return item.refuse("\"{}\" stands at {} already", printable(name, 80), before->second);
        if (std::ranges::find(policy.protected_names, name) == policy.protected_names.end())
            policy.protected_names.push_back(name);
        if (policy.protected_names.size() > kMaxProtected)
            return item.refuse("more than {} protected names", kMaxProtected);
    }
    return {};
}

Status check_contradictions(const json::Reader& document, Policy& policy)
{
    if (policy.protected_names.empty()) return {};
    if (std::ranges::find(policy.files, Access::Write, &FileRule::access) == policy.files.end()) {
        BERTH_TRY(const auto protect, document.find("protect"));
        if (protect) return protect->refuse("protect needs a write rule: nothing here is writable by a rule");
        policy.protected_names.clear();
        return {};
    }
    const std::set<std::string_view> names(policy.protected_names.begin(), policy.protected_names.end());
    BERTH_TRY(const auto files, document.find("files"));
    if (!files) return {};
    BERTH_TRY(const auto items, files->array());
    for (const auto& item : items) {
        BERTH_TRY(const Entry entry, read_rule(item));
        if (entry.rule.access != Access::Write) continue;
        for (const std::string_view part : written_components(entry.rule.target))
            if (names.contains(part))
                return fail(Code::Invalid, "{}: writing \"{}\" contradicts the protected name \"{}\"",
                            entry.place, printable(to_string(entry.rule.target), 80), printable(part, 80));
    }
    return {};
}

} // namespace berth::policy
