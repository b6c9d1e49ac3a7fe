#include "base/encoding.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/base64_wide.hpp"

namespace berth {

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// The two digits of each twelve bits: half as many steps as with one.
constexpr std::array<char, 2 * 4096> kPairs = [] {
    std::array<char, 2 * 4096> out{};
    for (std::size_t i = 0; i < 4096; ++i) {
        out[2 * i] = kDigits[i >> 6];
        out[2 * i + 1] = kDigits[i & 63];
    }
    return out;
}();

/// All of it, with no branch for each byte.
void base64_encode_to(std::string_view bytes, char* to)
{
    const auto byte = [&](std::size_t at) { return std::uint32_t{static_cast<unsigned char>(bytes[at])}; };
    std::size_t i = base64_encode_wide(bytes.data(), bytes.size(), to);
    to += i / 3 * 4;
    for (; i + 3 <= bytes.size(); i += 3) {
        const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        std::memcpy(to, &kPairs[2 * (group >> 12)], 2);
        std::memcpy(to + 2, &kPairs[2 * (group & 4095)], 2);
        to += 4;
    }
    if (i == bytes.size()) return;
    const bool two = i + 2 == bytes.size();
    const std::uint32_t group = byte(i) << 16 | (two ? byte(i + 1) << 8 : 0);
    *to++ = kDigits[group >> 18];
    *to++ = kDigits[group >> 12 & 63];
    *to++ = two ? kDigits[group >> 6 & 63] : '=';
    *to = '=';
}

/// What each character stands for in base64, of both alphabets; -1: nothing.
constexpr std::array<std::int8_t, 256> kValues = [] {
    std::array<std::int8_t, 256> out{};
    out.fill(-1);
    for (std::size_t i = 0; i < kDigits.size(); ++i)
        out[static_cast<unsigned char>(kDigits[i])] = static_cast<std::int8_t>(i);
    out['-'] = 62;
    out['_'] = 63;
    return out;
}();

std::optional<std::string> decode(std::string_view text, bool form)
{
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (form && text[i] == '+') {
            out += ' ';
            continue;
        }
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        if (i + 2 >= text.size()) return std::nullopt;
        const int high = hex_value(text[i + 1]);
        const int low = hex_value(text[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return out;
}

} // namespace

std::string hex_encode(std::string_view bytes)
{
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out(2 * bytes.size(), '\0');
    auto at = out.begin();
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    return out;
}

std::string base64_encode(std::string_view bytes)
{
    std::string out;
    base64_append(out, bytes);
    return out;
}

// All that a command prints goes through here on its way to E2B's clients.
void base64_append(std::string& out, std::string_view bytes)
{
    const std::size_t old = out.size();
    const std::size_t size = old + (bytes.size() + 2) / 3 * 4;
    // Not the size that it is told: libstdc++ 12 tells how much room there is.
    out.resize_and_overwrite(size, [&](char* all, std::size_t) {
        base64_encode_to(bytes, all + old);
        return size;
    });
}

std::optional<std::string> base64_decode(std::string_view text)
{
    std::size_t padding = 0;
    while (!text.empty() && text.back() == '=' && padding < 2) {
        text.remove_suffix(1);
        ++padding;
    }
    if (text.size() % 4 == 1) return std::nullopt;
    if (padding != 0 && (text.size() + padding) % 4 != 0) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 4 * 3 + 2);
    std::uint32_t group = 0;
    int bits = 0;
    for (const char c : text) {
        const int value = kValues[static_cast<unsigned char>(c)];
        if (value < 0) return std::nullopt;
        group = group << 6 | static_cast<std::uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out += static_cast<char>(group >> bits & 0xff);
    }
    return out;
}

std::optional<std::string> percent_decode(std::string_view text) { return decode(text, false); }
std::optional<std::string> form_decode(std::string_view text) { return decode(text, true); }

std::string percent_encode(std::string_view text)
{
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '-' || c == '.' || c == '_' || c == '~';
        if (plain) {
            out += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        out += '%';
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    return out;
}

std::optional<std::string> hex_decode(std::string_view digits)
{
    if (digits.size() % 2 != 0) return std::nullopt;
    std::string out;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        const int high = hex_value(digits[i]);
        const int low = hex_value(digits[i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
    }
    return out;
}

bool equal_secret(std::string_view one, std::string_view other) noexcept
{
    unsigned differ = one.size() == other.size() ? 0u : 1u;
    // As long as the first one is, whatever the other's size.
    const std::string_view beside = differ == 0 ? other : one;
    for (std::size_t i = 0; i < one.size(); ++i)
        differ |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(beside[i]);
    return differ == 0;
}

} // namespace berth
