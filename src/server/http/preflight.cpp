#include "server/http/preflight.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::http {

namespace {

constexpr std::size_t kLongest = 4096;
constexpr std::string_view kUsual = "Authorization, Content-Type, X-API-Key, X-Access-Token";

bool is_token(std::string_view word)
{
    constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    return !word.empty() && std::ranges::all_of(word, [&](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               others.contains(c);
    });
}

std::string_view trimmed(std::string_view word)
{
    while (!word.empty() && (word.front() == ' ' || word.front() == '\t')) word.remove_prefix(1);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t')) word.remove_suffix(1);
    return word;
}

/// Nothing but names, however it was written.
std::string named_by(std::string_view asked)
{
    if (asked.size() > kLongest) return {};
    std::string out;
    for (const auto& word : split(asked, ',')) {
        const auto name = trimmed(word);
        if (!is_token(name)) continue;
        if (!out.empty()) out += ", ";
        out += name;
    }
    return out;
}

} // namespace

Response preflight(const RequestHead& head)
{
    const std::string named = named_by(head.value("access-control-request-headers"));
    auto response = empty_response();
    response.with("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
    response.with("Access-Control-Allow-Headers", named.empty() ? std::string(kUsual) : named);
    response.with("Access-Control-Max-Age", "7200");
    response.with("Vary", "Access-Control-Request-Headers");
    return response;
}

} // namespace berth::http
