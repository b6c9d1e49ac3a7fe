// Patterns come from documents and paths from inside a sandbox, so both are hostile: matching keeps
// the set of reachable pattern positions and never backtracks across components. The cost is bounded
// by the product of both lengths, whatever the stars.
#include "policy/glob.hpp"

#include <optional>
#include <vector>

#include "base/strings.hpp"
#include "policy/bind.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

/// Calls `range(low, high)` for each item of the set that opens at `at`; answers the position after
/// its "]", or nothing when it is not closed. `negated` says whether it began with "!" or "^".
template <class Range>
std::optional<std::size_t> each_range(std::string_view part, std::size_t at, bool& negated, Range&& range)
{
    ++at;
    negated = at < part.size() && (part[at] == '!' || part[at] == '^');
    if (negated) ++at;
    for (bool first = true; at < part.size(); first = false) {
        if (part[at] == ']' && !first) return at + 1;
        const char32_t low = next_character(part, at);
        char32_t high = low;
        if (at + 1 < part.size() && part[at] == '-' && part[at + 1] != ']') high = next_character(part, ++at);
        range(low, high);
    }
    return std::nullopt;
}

/// Matches one character against the item of the pattern at `at`, which moves past the item.
bool match_one(std::string_view part, std::size_t& at, char32_t c)
{
    if (part[at] == '?') return ++at, true;
    if (part[at] == '[') {
        bool negated = false;
        bool found = false;
        const auto end = each_range(part, at, negated,
                                    [&](char32_t low, char32_t high) { found |= low <= c && c <= high; });
        if (end) return at = *end, found != negated;
    }
    return next_character(part, at) == c;
}

/// One component against one name. A star that fails takes one character more; only the last star
/// needs to be tried again, for an earlier one could only have left less.
bool match_component(std::string_view part, std::string_view name)
{
    std::size_t p = 0;
    std::size_t n = 0;
    std::optional<std::size_t> star;
    std::size_t resume = 0;
    while (n < name.size()) {
        if (p < part.size() && part[p] == '*') {
            star = ++p;
            resume = n;
            continue;
        }
        std::size_t next = p;
        std::size_t after = n;
        const char32_t c = next_character(name, after);
        if (p < part.size() && match_one(part, next, c)) {
            p = next;
            n = after;
            continue;
        }
        if (!star) return false;
        next_character(name, resume);
        n = resume;
        p = *star;
    }
    while (p < part.size() && part[p] == '*') ++p;
    return p == part.size();
}

enum class Extent { Whole, OrAbove };

bool match(std::string_view pattern, std::string_view path, Extent extent)
{
    const auto parts = components(pattern);
    const std::size_t last = parts.size();
    // reached[i]: the first i components of the pattern are used up.
    std::vector<char> reached(last + 1, 0);
    std::vector<char> next(last + 1, 0);
    // "**" may stand for nothing, but not at the end: "/a/**" is what is in /a, not /a.
    const auto settle = [&](std::vector<char>& set) {
        for (std::size_t i = 0; i + 1 < last; ++i)
            if (set[i] != 0 && parts[i] == "**") set[i + 1] = 1;
    };
    reached[0] = 1;
    settle(reached);
    for (const std::string_view name : components(path)) {
        if (extent == Extent::OrAbove && reached[last] != 0) return true;
        std::ranges::fill(next, 0);
        for (std::size_t i = 0; i < last; ++i) {
            if (reached[i] == 0) continue;
            if (parts[i] == "**") {
                next[i] = 1;
                if (i + 1 == last) next[last] = 1;
            } else if (match_component(parts[i], name)) {
                next[i + 1] = 1;
            }
        }
        settle(next);
        std::swap(reached, next);
    }
    return reached[last] != 0;
}

} // namespace

char32_t next_character(std::string_view text, std::size_t& at)
{
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t more = lead >= 0xf0 && lead < 0xf5 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : 0;
    const char32_t alone = lead < 0x80 ? lead : 0x110000u + lead;
    if (lead < 0xc2 || lead >= 0xf5 || text.size() - at <= more) return ++at, alone;
    char32_t value = lead & (0x3fu >> more);
    for (std::size_t i = 1; i <= more; ++i) {
        const auto byte = static_cast<unsigned char>(text[at + i]);
        if ((byte & 0xc0) != 0x80) return ++at, alone;
        value = (value << 6) | (byte & 0x3fu);
    }
    at += more + 1;
    return value;
}

Status check_glob_component(std::string_view part)
{
    const auto refuse = [&](std::string_view why) {
        return fail(Code::Invalid, "'{}': {}", printable(part, 80), why);
    };
    if (part != "**" && part.find("**") != std::string_view::npos)
        return refuse("** must stand alone between slashes");
    for (std::size_t at = 0; at < part.size();) {
        if (part[at] == '\\') return refuse("a backslash does not escape; write [*], [?] or [[]");
        if (part[at] != '[') {
            ++at;
            continue;
        }
        bool negated = false;
        bool backwards = false;
        const auto end =
            each_range(part, at, negated, [&](char32_t low, char32_t high) { backwards |= low > high; });
        if (!end) return refuse("the set is not closed");
        if (backwards) return refuse("the range runs backwards");
        at = *end;
    }
    return {};
}

bool glob_match(std::string_view pattern, std::string_view path)
{
    return match(pattern, path, Extent::Whole);
}

bool glob_covers(std::string_view pattern, std::string_view path)
{
    return match(pattern, path, Extent::OrAbove);
}

} // namespace berth::policy
