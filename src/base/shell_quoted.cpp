#include "base/shell_quoted.hpp"

#include <algorithm>

namespace berth {

std::string shell_quoted(std::string_view word)
{
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("-_./:=@%+,").find(c) != std::string_view::npos;
    };
    if (!word.empty() && std::ranges::all_of(word, plain)) return std::string(word);
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

} // namespace berth
