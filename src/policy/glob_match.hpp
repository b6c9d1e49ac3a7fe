#pragma once

#include <cstddef>
#include <string_view>

/// How one name is matched by one component of a pattern, and how a whole pattern is walked along a path.
/// Without allocation and without a library: the supervisor of a command, which has neither, asks here too.
namespace berth::policy {

/// The character at `at`, which moves past it. A byte that is not UTF-8 is a character of its own,
/// beyond Unicode, so a file name of any bytes has a meaning and "?" never splits a character.
constexpr char32_t next_character(std::string_view text, std::size_t& at)
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

namespace glob {

constexpr std::size_t kNotClosed = std::string_view::npos;

/// Calls `range(low, high)` for each item of the set that opens at `at`; answers the position after
/// its "]", or kNotClosed. `negated` says whether it began with "!" or "^".
template <class Range>
constexpr std::size_t each_range(std::string_view part, std::size_t at, bool& negated, Range&& range)
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
    return kNotClosed;
}

/// Matches one character against the item of the pattern at `at`, which moves past the item.
constexpr bool match_one(std::string_view part, std::size_t& at, char32_t c)
{
    if (part[at] == '?') return ++at, true;
    if (part[at] == '[') {
        bool negated = false;
        bool found = false;
        const auto end = each_range(part, at, negated,
                                    [&](char32_t low, char32_t high) { found |= low <= c && c <= high; });
        if (end != kNotClosed) return at = end, found != negated;
    }
    return next_character(part, at) == c;
}

/// One component against one name. A star that fails takes one character more; only the last star
/// needs to be tried again, for an earlier one could only have left less.
constexpr bool match_component(std::string_view part, std::string_view name)
{
    constexpr std::size_t none = std::string_view::npos;
    std::size_t p = 0;
    std::size_t n = 0;
    std::size_t star = none;
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
        if (star == none) return false;
        next_character(name, resume);
        n = resume;
        p = star;
    }
    while (p < part.size() && part[p] == '*') ++p;
    return p == part.size();
}

/// A walk keeps, for each i, whether the first i of `count` components of a pattern are used up by the names
/// so far: `count` + 1 places. "**" may stand for nothing, but not at the end: "/a/**" is what is in /a.
constexpr void settle(const std::string_view* parts, std::size_t count, char* reached)
{
    for (std::size_t i = 0; i + 1 < count; ++i)
        if (reached[i] != 0 && parts[i] == "**") reached[i + 1] = 1;
}

/// One name further.
constexpr void advance(const std::string_view* parts, std::size_t count, std::string_view name,
                       const char* reached, char* next)
{
    for (std::size_t i = 0; i <= count; ++i) next[i] = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (reached[i] == 0) continue;
        if (parts[i] == "**") {
            next[i] = 1;
            if (i + 1 == count) next[count] = 1;
        } else if (match_component(parts[i], name)) {
            next[i + 1] = 1;
        }
    }
    settle(parts, count, next);
}

} // namespace glob
} // namespace berth::policy
