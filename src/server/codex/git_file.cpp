#include "server/codex/git_file.hpp"

namespace berth::codex {

namespace {

std::string_view without_blanks(std::string_view text)
{
    constexpr std::string_view kBlanks = " \t\r\n\v\f";
    const auto first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// What git makes of it: one blank before the name belongs to the colon, ends of lines behind it to nobody.
std::string_view to_the_letter(std::string_view text)
{
    if (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
    return text;
}

} // namespace

std::vector<std::string> named_git_directories(std::string_view text)
{
    const auto colon = text.find(':');
    if (colon == std::string_view::npos || without_blanks(text.substr(0, colon)) != "gitdir") return {};
    text.remove_prefix(colon + 1);
    std::vector<std::string> out;
    for (const auto name : {without_blanks(text), to_the_letter(text)})
        if (!name.empty() && name.find('\0') == std::string_view::npos &&
            (out.empty() || out.front() != name))
            out.emplace_back(name);
    return out;
}

} // namespace berth::codex
