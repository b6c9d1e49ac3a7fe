#include "server/e2b/build_words.hpp"

#include <fmt/ranges.h>

#include "base/strings.hpp"

namespace berth::e2b::words {

std::optional<std::string> inside(std::string_view path)
{
    if (path.starts_with('/')) return std::nullopt;
    std::vector<std::string> parts;
    for (auto& part : split(path, '/')) {
        if (part.empty() || part == ".") continue;
        if (part != "..") {
            parts.push_back(std::move(part));
        } else {
            if (parts.empty()) return std::nullopt;
            parts.pop_back();
        }
    }
    return fmt::format("{}", fmt::join(parts, "/"));
}

std::string quoted_value(std::string_view value)
{
    std::string out;
    for (std::size_t i = 0; i < value.size(); ++i) {
        const char c = value[i];
        const bool command = c == '$' && i + 1 < value.size() && value[i + 1] == '(';
        if (c == '"' || c == '\\' || c == '`' || command) out += '\\';
        out += c;
    }
    return out;
}

} // namespace berth::e2b::words
