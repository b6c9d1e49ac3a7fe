// Patterns take something away from a command: one that was read as less than was meant would show what
// somebody has hidden. So every character that has a meaning on the other side has the same one here, or the
// pattern is refused.
#include "protocol/codex/deny_pattern.hpp"

#include "base/strings.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kMaxGroups = 16;
constexpr std::size_t kMaxAlternatives = 256;

std::string close_brackets(std::string_view pattern)
{
    std::string out;
    for (std::size_t at = 0; at < pattern.size();) {
        if (pattern[at] != '[') {
            out += pattern[at++];
            continue;
        }
        std::size_t first = at + 1;
        if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
        // Right behind the opening one it belongs to the set.
        const auto end = pattern.find(']', first + 1);
        const bool closed =
            end != std::string_view::npos && pattern.substr(at, end - at).find('/') == std::string_view::npos;
        out += closed ? pattern.substr(at, end + 1 - at) : "[[]";
        at = closed ? end + 1 : at + 1;
    }
    return out;
}

/// Behind the character or the whole set that is there; every set is closed.
std::size_t behind(std::string_view pattern, std::size_t at)
{
    if (pattern[at] != '[') return at + 1;
    const auto second = pattern.substr(at + 1, 1);
    const auto end = pattern.find(']', at + (second == "!" || second == "^" ? 3 : 2));
    return end == std::string_view::npos ? pattern.size() : end + 1;
}

std::unexpected<Error> meaningless(std::string_view pattern, std::string_view why)
{
    return fail(Code::Invalid, "'{}': {}", printable(pattern, 80), why);
}

Status check_characters(std::string_view pattern)
{
    std::size_t open = 0;
    std::size_t groups = 0;
    for (std::size_t at = 0; at < pattern.size(); at = behind(pattern, at)) {
        if (pattern[at] == '\\') return meaningless(pattern, "a backslash does not escape; write [*] or [{]");
        if (pattern[at] == '}' && open-- == 0) return meaningless(pattern, "a } without a {; write [}]");
        if (pattern[at] != '{') continue;
        ++open;
        if (++groups > kMaxGroups) return meaningless(pattern, "too many alternatives");
    }
    if (open > 0) return meaningless(pattern, "the { is not closed; write [{]");
    return {};
}

/// The alternatives of the group that opens at `begin`, and where it ends.
std::vector<std::string_view> alternatives(std::string_view pattern, std::size_t begin, std::size_t& end)
{
    std::vector<std::string_view> out;
    std::size_t start = begin + 1;
    std::size_t depth = 1;
    for (end = start;; end = behind(pattern, end)) {
        if (pattern[end] == '{') ++depth;
        if (pattern[end] == '}') --depth;
        if (depth > 1 || (depth == 1 && pattern[end] != ',')) continue;
        out.push_back(pattern.substr(start, end - start));
        start = end + 1;
        if (depth == 0) return out;
    }
}

Status expand(const std::string& pattern, std::vector<std::string>& out)
{
    std::size_t begin = 0;
    while (begin < pattern.size() && pattern[begin] != '{') begin = behind(pattern, begin);
    if (begin == pattern.size()) {
        if (out.size() == kMaxAlternatives) return meaningless(pattern, "too many alternatives");
        out.push_back(pattern);
        return {};
    }
    std::size_t end = 0;
    for (const auto one : alternatives(pattern, begin, end)) {
        if (one.empty()) return meaningless(pattern, "an alternative is empty");
        BERTH_CHECK(expand(
            fmt::format("{}{}{}", pattern.substr(0, begin), one, std::string_view(pattern).substr(end + 1)),
            out));
    }
    return {};
}

} // namespace

Result<std::vector<std::string>> read_deny_pattern(std::string_view text)
{
    const std::string pattern = close_brackets(text);
    BERTH_CHECK(check_characters(pattern));
    std::vector<std::string> out;
    BERTH_CHECK(expand(pattern, out));
    return out;
}

std::string write_deny_pattern(std::string_view pattern)
{
    std::string out;
    for (std::size_t at = 0; at < pattern.size();) {
        const auto end = behind(pattern, at);
        if (pattern[at] == '{' || pattern[at] == '}')
            ((out += '[') += pattern[at]) += ']';
        else
            out += pattern.substr(at, end - at);
        at = end;
    }
    return out;
}

} // namespace berth::codex
