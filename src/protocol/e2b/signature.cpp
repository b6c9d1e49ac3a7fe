#include "protocol/e2b/signature.hpp"

#include "base/encoding.hpp"
#include "base/sha256.hpp"

namespace berth::e2b {

std::string signature(const SignedLink& link, std::string_view token)
{
    std::string raw = link.path;
    raw += link.use == FileUse::Read ? ":read:" : ":write:";
    raw += link.user;
    raw += ':';
    raw += token;
    if (link.expiration) {
        raw += ':';
        raw += *link.expiration;
    }
    auto text = base64_encode(hex_decode(sha256_hex(raw)).value_or(""));
    while (text.ends_with('=')) text.pop_back();
    return "v1_" + text;
}

} // namespace berth::e2b
