#include "protocol/e2b/fields.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "base/strings.hpp"

namespace berth::e2b::fields {

namespace {

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

std::string snake(std::string_view camel)
{
    std::string out;
    for (const char c : camel) {
        if (is_capital(c)) out += '_';
        out += is_capital(c) ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
}

Result<std::int64_t> integer(const json::Reader& at, std::int64_t low, std::int64_t high)
{
    if (!at.value().is_string()) return at.integer(low, high);
    BERTH_TRY(const auto digits, at.string());
    const auto parsed = parse_int(digits, low, high, "number");
    if (!parsed) return at.refuse("{}", parsed.error().message);
    return *parsed;
}

} // namespace

Result<std::optional<json::Reader>> find(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(auto there, from.find(name));
    if (there || std::ranges::none_of(name, is_capital)) return there;
    return from.find(snake(name));
}

Result<std::optional<std::string>> maybe_text(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(const auto there, find(from, name));
    if (!there) return std::optional<std::string>{};
    return there->string();
}

Result<std::string> text(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(auto there, maybe_text(from, name));
    return std::move(there).value_or("");
}

Result<std::optional<bool>> maybe_flag(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(const auto there, find(from, name));
    if (!there) return std::optional<bool>{};
    BERTH_TRY(const bool value, there->boolean());
    return std::optional<bool>(value);
}

Result<bool> flag(const json::Reader& from, std::string_view name, bool otherwise)
{
    BERTH_TRY(const auto there, maybe_flag(from, name));
    return there.value_or(otherwise);
}

Result<std::optional<std::int64_t>> maybe_whole(const json::Reader& from, std::string_view name,
                                                std::int64_t low, std::int64_t high)
{
    BERTH_TRY(const auto there, find(from, name));
    if (!there) return std::optional<std::int64_t>{};
    return integer(*there, low, high);
}

Result<std::int64_t> whole(const json::Reader& from, std::string_view name, std::int64_t low,
                           std::int64_t high, std::int64_t otherwise)
{
    BERTH_TRY(const auto there, maybe_whole(from, name, low, high));
    return there.value_or(otherwise);
}

Result<std::optional<std::string>> maybe_bytes(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(const auto there, find(from, name));
    if (!there) return std::optional<std::string>{};
    BERTH_TRY(const auto coded, there->string());
    auto bytes = base64_decode(coded);
    if (!bytes) return there->refuse("not base64");
    return bytes;
}

Result<std::map<std::string, std::string>> texts(const json::Reader& from, std::string_view name)
{
    std::map<std::string, std::string> out;
    BERTH_TRY(const auto there, find(from, name));
    if (!there) return out;
    BERTH_TRY(const auto members, there->members());
    for (const auto& [key, value] : members) {
        BERTH_TRY(out[key], value.string());
    }
    return out;
}

} // namespace berth::e2b::fields
