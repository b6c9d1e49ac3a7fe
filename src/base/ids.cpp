#include "base/ids.hpp"

#include <sys/random.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "base/encoding.hpp"

namespace berth {

namespace {

// Crockford's alphabet: no i, l, o, u, so an id read aloud stays unambiguous.
constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::size_t kIdLength = 26;

using Uuid = std::array<std::uint8_t, 16>;

void fill_random(void* bytes, std::size_t size)
{
    // Only a kernel without getrandom fails here, and no id is better than a guessable one.
    if (::getrandom(bytes, size, 0) != static_cast<ssize_t>(size)) std::abort();
}

Uuid make_uuid7(const Clock& clock)
{
    Uuid uuid{};
    fill_random(uuid.data(), uuid.size());
    const auto ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(clock.now().time_since_epoch()).count());
    for (std::size_t i = 0; i < 6; ++i) uuid[i] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x70);
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
    return uuid;
}

} // namespace

std::string make_bare_id(const Clock& clock)
{
    const Uuid uuid = make_uuid7(clock);
    std::string text(kIdLength, '0');
    // 26 characters hold 130 bits: the first carries only the top three of the 128.
    for (std::size_t i = 0; i < kIdLength; ++i) {
        unsigned digit = 0;
        for (std::size_t b = 0; b < 5; ++b) {
            const std::size_t bit = 5 * i + b;
            if (bit < 2) continue;
            const std::size_t k = bit - 2;
            digit |= static_cast<unsigned>((uuid[k / 8] >> (7 - k % 8)) & 1u) << (4 - b);
        }
        text[i] = kAlphabet[digit];
    }
    return text;
}

std::string make_sandbox_id(const Clock& clock) { return "sbx_" + make_bare_id(clock); }
std::string make_exec_id(const Clock& clock) { return "exec_" + make_bare_id(clock); }
std::string make_snapshot_id(const Clock& clock) { return "snap_" + make_bare_id(clock); }

std::string random_hex(std::size_t bytes)
{
    std::string raw(bytes, '\0');
    fill_random(raw.data(), raw.size());
    return hex_encode(raw);
}

bool is_id(std::string_view id, std::string_view prefix) noexcept
{
    if (!id.starts_with(prefix)) return false;
    id.remove_prefix(prefix.size());
    return id.size() == kIdLength && id.find_first_not_of(kAlphabet) == std::string_view::npos;
}

} // namespace berth
