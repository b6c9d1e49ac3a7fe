#include "prove/pattern.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/strings.hpp"
#include "policy/glob_match.hpp"
#include "policy/target.hpp"

namespace berth::prove {

namespace {

constexpr std::size_t kLongestName = 255;

/// A name that one component of a pattern matches; whether it does is asked afterwards.
std::string sample(std::string_view part, const std::string& ours)
{
    std::string out;
    bool named = false;
    for (std::size_t at = 0; at < part.size();) {
        if (part[at] == '*') {
            if (!named) out += ours;
            named = true;
            ++at;
        } else if (part[at] == '?') {
            out += 'x';
            ++at;
        } else if (part[at] == '[') {
            bool negated = false;
            char32_t first = 0;
            const auto end = policy::glob::each_range(part, at, negated, [&](char32_t low, char32_t) {
                if (first == 0) first = low;
            });
            if (end == policy::glob::kNotClosed) {
                out += part[at++];
                continue;
            }
            out += negated || first > 0x7e ? '~' : static_cast<char>(first);
            at = end;
        } else {
            out += part[at++];
        }
    }
    return out;
}

/// One path that the pattern names, with its first "**" leading through `place`.
std::string sample_path(std::string_view pattern, const std::string& place, const std::string& ours)
{
    const auto parts = policy::components(pattern);
    std::string out;
    bool led = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] != "**") {
            out += "/" + sample(parts[i], ours);
            continue;
        }
        if (!led && policy::at_or_below(place, out.empty() ? "/" : out)) out = place == "/" ? "" : place;
        led = true;
        out += "/" + ours;
    }
    return out;
}

bool is_denied(const policy::BoundFiles& files, const std::string& path)
{
    return files.decide(path) != policy::Access::Write;
}

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

std::optional<Match> find_match(const policy::BoundFiles& files, const std::string& pattern,
                                const std::vector<std::string>& places, const std::string& token)
{
    const auto ours = [&](int number) { return fmt::format(".berth-probe-{}-{}", token, number); };
    for (const auto& place : places) {
        const auto fits = [&](const std::string& path) {
            const auto names = policy::components(path);
            return path.find("/.berth-probe-") != std::string::npos && policy::at_or_below(path, place) &&
                   policy::glob_match(pattern, path) && !is_denied(files, parent_of(path)) &&
                   std::ranges::all_of(names, [](auto name) { return name.size() <= kLongestName; });
        };
        Match out{.planted = sample_path(pattern, place, ours(1)),
                  .other = sample_path(pattern, place, ours(2)),
                  .beside = {}};
        if (!fits(out.planted)) continue;
        if (out.other == out.planted || !fits(out.other)) out.other.clear();
        out.beside = parent_of(out.planted);
        while (is_denied(files, out.beside + "/" + ours(0)) && out.beside.size() > place.size())
            out.beside = parent_of(out.beside);
        if (!is_denied(files, out.beside + "/" + ours(0))) return out;
    }
    return std::nullopt;
}

} // namespace berth::prove
