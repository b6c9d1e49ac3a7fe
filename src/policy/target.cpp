// File rules are security boundaries written as text, possibly by a client nobody trusts. This file
// gives each target exactly one spelling and refuses what could be read in two ways: relative paths,
// "..", control characters, half-open sets. Links are the executor's matter; it resolves by descriptor.
#include "policy/target.hpp"

#include <algorithm>

#include "base/strings.hpp"
#include "policy/bind.hpp"
#include "policy/glob.hpp"
#include "policy/symbols.hpp"

namespace berth::policy {

namespace {

/// The components of `text` joined again without "." and empty ones; no leading slash.
Result<std::string> clean(std::string_view text)
{
    BERTH_CHECK(check_printable(text));
    if (text.size() > kMaxPath)
        return fail(Code::Invalid, "a path of {} bytes; at most {}", text.size(), kMaxPath);
    std::string out;
    const bool pattern = has_wildcard(text);
    for (const std::string_view part : components(text)) {
        if (part == ".") continue;
        if (part == "..") return fail(Code::Invalid, "'{}' contains ..", printable(text, 80));
        if (part.size() > kMaxName)
            return fail(Code::Invalid, "'{}': a name of {} bytes; at most {}", printable(part, 80),
                        part.size(), kMaxName);
        if (pattern) BERTH_CHECK(check_glob_component(part));
        if (!out.empty()) out += '/';
        out += part;
    }
    return out;
}

/// An absolute target from its cleaned components.
Target absolute(std::string relative)
{
    if (relative.empty()) return Symbolic{Symbol::Root, {}};
    if (!has_wildcard(relative)) return Path{"/" + relative};
    return relative.starts_with("**/") ? Glob{std::move(relative)} : Glob{"/" + relative};
}

Result<Target> parse_symbolic(std::string_view text)
{
    const std::string_view name = text.substr(0, text.find('/'));
    const auto* known = std::ranges::find(kSymbols, name, &std::pair<Symbol, std::string_view>::second);
    if (known == kSymbols.end()) {
        std::vector<std::string> names;
        for (const auto& entry : kSymbols) names.emplace_back(entry.second);
        const std::string near = nearest(name.substr(0, 80), names);
        return near.empty()
                   ? fail(Code::Invalid, "no symbol '{}': one of {}", printable(name, 80),
                          fmt::join(names, ", "))
                   : fail(Code::Invalid, "no symbol '{}', did you mean '{}'?", printable(name, 80), near);
    }
    BERTH_TRY(std::string below, clean(text.substr(name.size())));
    if (known->first == Symbol::Root) return absolute(std::move(below));
    if (known->first == Symbol::Minimal && !below.empty())
        return fail(Code::Invalid, "'{}': :minimal is a list of places, nothing can follow it",
                    printable(text, 80));
    return Symbolic{known->first, std::move(below)};
}

} // namespace

Result<Target> parse_target(std::string_view text)
{
    if (text.empty()) return fail(Code::Invalid, "the path is empty");
    if (text.front() == ':') return parse_symbolic(text);
    if (text.front() != '/' && !text.starts_with("**/"))
        return fail(Code::Invalid,
                    "'{}' is relative: write an absolute path, a symbol, or a pattern that begins with **/",
                    printable(text, 80));
    BERTH_TRY(std::string relative, clean(text));
    return absolute(std::move(relative));
}

Status check_target(const Target& target)
{
    if (const auto* path = std::get_if<Path>(&target)) {
        BERTH_TRY(const std::string same, normalise(path->text));
        if (same != path->text)
            return fail(Code::Invalid, "'{}' is not normalised: write '{}'", printable(path->text, 80),
                        printable(same, 80));
        return {};
    }
    if (auto parsed = parse_target(to_string(target)); !parsed)
        return std::unexpected(std::move(parsed).error());
    return {};
}

Status check_count(const std::vector<FileRule>& rules)
{
    if (rules.size() > kMaxRules)
        return fail(Code::Invalid, "{} file rules; at most {}", rules.size(), kMaxRules);
    const auto patterns =
        std::ranges::count_if(rules, [](const FileRule& rule) { return is_pattern(rule.target); });
    if (static_cast<std::size_t>(patterns) > kMaxPatterns)
        return fail(Code::Invalid, "{} patterns among the file rules; at most {}", patterns, kMaxPatterns);
    return {};
}

Status check_name(std::string_view name)
{
    if (name.empty()) return fail(Code::Invalid, "the name is empty");
    BERTH_CHECK(check_printable(name));
    if (name.size() > kMaxName)
        return fail(Code::Invalid, "a name of {} bytes; at most {}", name.size(), kMaxName);
    if (name == "." || name == ".." || name.find('/') != std::string_view::npos)
        return fail(Code::Invalid, "'{}' is not a plain name", printable(name, 80));
    if (has_wildcard(name))
        return fail(Code::Invalid, "'{}' is a pattern: protected names are exact", printable(name, 80));
    return {};
}

Status check_printable(std::string_view text)
{
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                        static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (c < 0x20 || c == 0x7f || c1)
            return fail(Code::Invalid, "'{}' contains a control character", printable(text, 80));
    }
    return {};
}

bool has_wildcard(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

bool is_pattern(const Target& target)
{
    if (const auto* symbolic = std::get_if<Symbolic>(&target)) return has_wildcard(symbolic->below);
    return std::holds_alternative<Glob>(target);
}

std::string escape_pattern(std::string_view path)
{
    std::string out;
    for (const char c : path) {
        if (c == '*' || c == '?' || c == '[' || c == '\\')
            ((out += '[') += c) += ']';
        else
            out += c;
    }
    return out;
}

std::string_view literal_prefix(std::string_view pattern)
{
    const std::string_view before = pattern.substr(0, pattern.find_first_of("*?["));
    const std::size_t slash = before.rfind('/');
    return slash == 0 || slash == std::string_view::npos ? "/" : before.substr(0, slash);
}

std::vector<std::string_view> components(std::string_view path)
{
    std::vector<std::string_view> parts;
    while (!path.empty()) {
        const std::size_t slash = std::min(path.find('/'), path.size());
        if (slash > 0) parts.push_back(path.substr(0, slash));
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return parts;
}

bool at_or_below(std::string_view path, std::string_view place)
{
    if (place == "/") return true;
    return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

} // namespace berth::policy
