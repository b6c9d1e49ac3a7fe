#include "policy/bind.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/strings.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

std::vector<std::string> places_of(Symbol symbol, const Roots& roots)
{
    switch (symbol) {
    case Symbol::Root: return {"/"};
    case Symbol::Minimal: return roots.minimal;
    case Symbol::WorkspaceRoots: return roots.workspaces;
    case Symbol::Tmpdir: return roots.tmpdirs;
    case Symbol::Home: return roots.home.empty() ? std::vector<std::string>{} : std::vector{roots.home};
    }
    return {};
}

/// One place of a symbol, with what the rule says below it.
Result<BoundRule> bind_below(Access access, const Symbolic& target, std::string_view place)
{
    BERTH_TRY(std::string root, normalise(place));
    BoundRule rule{access, {}, {}, to_string(target)};
    const auto join = [&](std::string base) {
        return base == "/" ? "/" + target.below : fmt::format("{}/{}", base, target.below);
    };
    if (target.below.empty())
        rule.path = std::move(root);
    else if (has_wildcard(target.below))
        rule.pattern = join(escape_pattern(root));
    else
        rule.path = join(std::move(root));
    if (std::max(rule.path.size(), rule.pattern.size()) > kMaxPath)
        return fail(Code::Invalid, "'{}' is over {} bytes below '{}'", printable(rule.source, 80), kMaxPath,
                    printable(place, 80));
    return rule;
}

Result<std::vector<BoundRule>> bind_rule(const FileRule& rule, const Roots& roots)
{
    BERTH_CHECK(check_target(rule.target));
    std::vector<BoundRule> bound;
    if (const auto* symbolic = std::get_if<Symbolic>(&rule.target)) {
        for (const auto& place : places_of(symbolic->symbol, roots)) {
            BERTH_TRY(auto one, bind_below(rule.access, *symbolic, place));
            bound.push_back(std::move(one));
        }
    } else if (const auto* path = std::get_if<Path>(&rule.target)) {
        bound.push_back({rule.access, path->text, {}, to_string(rule.target)});
    } else {
        const std::string& text = std::get<Glob>(rule.target).text;
        bound.push_back({rule.access, {}, text.front() == '/' ? text : "/" + text, text});
    }
    return bound;
}

/// Keeps one rule a target: two symbols may share a place, and then the lesser access holds.
class Unique {
public:
    void add(BoundRule rule)
    {
        const auto [entry, fresh] = at_.try_emplace({rule.path, rule.pattern}, rules_.size());
        if (fresh)
            rules_.push_back(std::move(rule));
        else if (rule.access < rules_[entry->second].access)
            rules_[entry->second] = std::move(rule);
    }

    std::vector<BoundRule> take() &&
    {
        std::ranges::sort(rules_, {}, [](const BoundRule& rule) {
            return std::tuple(rule.path.empty(), rule.path.size(), std::string_view(rule.path),
                              std::string_view(rule.pattern));
        });
        return std::move(rules_);
    }

private:
    std::map<std::pair<std::string, std::string>, std::size_t> at_;
    std::vector<BoundRule> rules_;
};

} // namespace

Result<BoundFiles> bind_files(const Policy& policy, const Roots& roots)
{
    BERTH_CHECK(check_count(policy.files));
    BoundFiles files;
    Unique rules;
    for (const auto& rule : policy.files) {
        BERTH_TRY(auto bound, bind_rule(rule, roots));
        if (bound.empty()) files.unbound.push_back(to_string(rule.target));
        for (auto& one : bound) rules.add(std::move(one));
    }
    files.rules = std::move(rules).take();
    if (files.rules.empty() && !policy.files.empty())
        return fail(Code::Invalid, "no file rule has a place here: {}", fmt::join(files.unbound, ", "));

    for (const auto& name : policy.protected_names) BERTH_CHECK(check_name(name));
    if (!policy.protected_names.empty() &&
        std::ranges::find(policy.files, Access::Write, &FileRule::access) == policy.files.end())
        return fail(Code::Invalid, "protect needs a write rule: '{}' stands below none",
                    printable(policy.protected_names.front(), 80));
    files.protected_names = policy.protected_names;
    return files;
}

std::string_view BoundRule::place() const { return pattern.empty() ? path : literal_prefix(pattern); }

Access BoundFiles::decide(std::string_view path) const
{
    const auto clean = normalise(path);
    if (!clean) return Access::Deny;
    if (rules.empty()) return Access::Write;

    Access by_path = Access::Deny;
    Access by_pattern = Access::Write;
    bool matched = false;
    std::size_t deepest = 0;
    // Where the writable area begins that the path lies in; protected names count below it only,
    // for a workspace may itself stand below a directory of such a name.
    std::size_t writable = std::string::npos;
    for (const auto& rule : rules) {
        const std::string_view place = rule.place();
        if (!at_or_below(*clean, place)) continue;
        if (rule.access == Access::Write) writable = std::min(writable, place.size());
        if (rule.pattern.empty()) {
            // Every path that covers is a prefix of this one, so longer is more specific.
            if (place.size() == deepest) by_path = std::min(by_path, rule.access);
            if (place.size() > deepest) by_path = rule.access;
            deepest = std::max(deepest, place.size());
        } else if (glob_covers(rule.pattern, *clean)) {
            by_pattern = std::min(by_pattern, rule.access);
            matched = true;
        }
    }
    const Access answer = matched ? by_pattern : by_path;
    if (answer != Access::Write || protected_names.empty()) return answer;
    for (const std::string_view part : components(std::string_view(*clean).substr(writable)))
        if (std::ranges::find(protected_names, part) != protected_names.end()) return Access::Read;
    return answer;
}

Result<std::string> normalise(std::string_view path)
{
    if (path.find('\0') != std::string_view::npos)
        return fail(Code::Invalid, "path '{}' contains NUL", printable(path, 80));
    if (path.empty() || path.front() != '/')
        return fail(Code::Invalid, "path '{}' is not absolute", printable(path, 80));
    if (path.size() > kMaxPath)
        return fail(Code::Invalid, "path '{}' has {} bytes; at most {}", printable(path, 80), path.size(),
                    kMaxPath);
    std::vector<std::string_view> kept;
    for (const std::string_view part : components(path)) {
        if (part == ".") continue;
        if (part != "..") {
            kept.push_back(part);
            continue;
        }
        if (kept.empty()) return fail(Code::Invalid, "path '{}' climbs above the root", printable(path, 80));
        kept.pop_back();
    }
    std::string out;
    for (const std::string_view part : kept) (out += '/') += part;
    return out.empty() ? "/" : out;
}

} // namespace berth::policy
