#include "distribution/challenge.hpp"

#include <algorithm>
#include <map>

#include "base/json_reader.hpp"
#include "base/strings.hpp"

namespace berth::distribution {

namespace {

std::string lower(std::string_view text)
{
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// name="value", name=value: until something else comes.
std::map<std::string, std::string> parameters(std::string_view text)
{
    std::map<std::string, std::string> out;
    while (!text.empty()) {
        text.remove_prefix(std::min(text.find_first_not_of(" ,\t"), text.size()));
        const auto equals = text.find('=');
        if (equals == std::string_view::npos) break;
        const auto name = lower(text.substr(0, equals));
        text.remove_prefix(equals + 1);
        std::string value;
        if (text.starts_with('"')) {
            std::size_t i = 1;
            for (; i < text.size() && text[i] != '"'; ++i) {
                if (text[i] == '\\' && i + 1 < text.size()) ++i;
                value += text[i];
            }
            text.remove_prefix(std::min(i + 1, text.size()));
        } else {
            value = text.substr(0, text.find(','));
            text.remove_prefix(value.size());
        }
        out.emplace(name, std::move(value));
    }
    return out;
}

bool plain(std::string_view text)
{
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

} // namespace

Result<Challenge> parse_challenge(std::string_view header)
{
    const auto space = header.find(' ');
    const auto scheme = lower(header.substr(0, space));
    auto values = parameters(space == std::string_view::npos ? std::string_view{} : header.substr(space + 1));
    Challenge out;
    if (scheme == "basic") return out;
    if (scheme != "bearer")
        return fail(Code::Unsupported, "the registry wants to be asked by '{}'", printable(scheme, 40));
    out.scheme = Challenge::Scheme::Bearer;
    out.realm = values["realm"];
    out.service = values["service"];
    out.scope = values["scope"];
    if (out.realm.empty() || !plain(out.realm))
        return fail(Code::Unavailable, "the registry does not say where tokens are to be had");
    return out;
}

Result<std::string> read_token(std::string_view body)
{
    BERTH_TRY(const auto document, json::parse(body));
    const json::Reader at(document);
    for (const char* name : {"token", "access_token"}) {
        BERTH_TRY(const auto found, at.find(name));
        if (!found) continue;
        BERTH_TRY(auto token, found->string());
        // It becomes a header's value.
        if (!token.empty() && plain(token)) return token;
    }
    return fail(Code::Unavailable, "no token in the answer of the registry's token server");
}

} // namespace berth::distribution
