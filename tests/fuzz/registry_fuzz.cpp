// What a person calls an image, and what a registry says of how to ask it: a name that is accepted is the
// same when it is read again and can become part of no other path, and nothing that a registry says becomes a
// second header.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "distribution/challenge.hpp"
#include "distribution/reference.hpp"

namespace {

void require(bool held)
{
    if (!held) std::abort();
}

bool plain(std::string_view text)
{
    for (const char c : text)
        if (c <= ' ' || c >= 0x7f) return false;
    return true;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    using namespace berth::distribution;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto name = parse_reference(text)) {
        const auto again = parse_reference(name->text());
        require(again && *again == *name);
        require(plain(name->text()) && name->repository.find("..") == std::string::npos);
        require(name->repository.find_first_of("?#%@:") == std::string::npos);
        (void)is_loopback(name->registry);
    }
    if (const auto challenge = parse_challenge(text)) require(plain(challenge->realm));
    if (const auto token = read_token(text)) require(plain(*token) && !token->empty());
    return 0;
}
