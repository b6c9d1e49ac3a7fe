#include "lifecycle/key.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth {

namespace {

constexpr std::size_t kMaxKey = 512;

bool has_control(std::string_view text)
{
    return std::ranges::any_of(text, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte == 0x7f;
    });
}

Result<std::string> scoped(std::string_view scope, std::string_view owner, std::string_view sandbox)
{
    for (const auto id : {owner, sandbox})
        if (id.empty() || id.find(':') != std::string_view::npos || has_control(id))
            return fail(Code::Invalid,
                        "'{}' cannot be part of a key: it is empty, or has ':' or control characters",
                        printable(id, 60));
    auto key = fmt::format("{}:{}:{}", scope, owner, sandbox);
    BERTH_CHECK(check_key(key));
    return key;
}

} // namespace

Status check_key(std::string_view key)
{
    if (key.empty()) return fail(Code::Invalid, "a key must not be empty");
    if (key.size() > kMaxKey)
        return fail(Code::Invalid, "a key of {} bytes is too long: at most {}", key.size(), kMaxKey);
    if (has_control(key) || printable_utf8(key) != key)
        return fail(Code::Invalid, "key '{}' has control characters or is no UTF-8", printable(key, 80));
    return {};
}

Result<std::string> conversation_key(std::string_view conversation, std::string_view sandbox)
{
    return scoped("conversation", conversation, sandbox);
}

Result<std::string> agent_key(std::string_view agent, std::string_view sandbox)
{
    return scoped("agent", agent, sandbox);
}

} // namespace berth
