// Patterns come from documents and paths from inside a sandbox, so both are hostile: matching keeps
// the set of reachable pattern positions and never backtracks across components. The cost is bounded
// by the product of both lengths, whatever the stars.
#include "policy/glob.hpp"

#include <vector>

#include "base/strings.hpp"
#include "policy/bind.hpp"
#include "policy/glob_match.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

enum class Extent { Whole, OrAbove };

bool match(std::string_view pattern, std::string_view path, Extent extent)
{
    const auto parts = components(pattern);
    const std::size_t last = parts.size();
    // reached[i]: the first i components of the pattern are used up.
    std::vector<char> reached(last + 1, 0);
    std::vector<char> next(last + 1, 0);
    reached[0] = 1;
    glob::settle(parts.data(), last, reached.data());
    for (const std::string_view name : components(path)) {
        if (extent == Extent::OrAbove && reached[last] != 0) return true;
        glob::advance(parts.data(), last, name, reached.data(), next.data());
        std::swap(reached, next);
    }
    return reached[last] != 0;
}

} // namespace

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
        const auto end = glob::each_range(part, at, negated,
                                          [&](char32_t low, char32_t high) { backwards |= low > high; });
        if (end == glob::kNotClosed) return refuse("the set is not closed");
        if (backwards) return refuse("the range runs backwards");
        at = end;
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
