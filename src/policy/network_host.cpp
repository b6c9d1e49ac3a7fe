#include "policy/network_host.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <arpa/inet.h>

#include "base/strings.hpp"

namespace berth::policy {

namespace {

struct Block {
    int family = AF_INET;
    std::array<unsigned char, 16> bytes{};
    unsigned prefix = 0;

    [[nodiscard]] unsigned width() const { return family == AF_INET ? 32 : 128; }
};

bool bit(const Block& block, unsigned i) { return ((block.bytes[i / 8] >> (7 - i % 8)) & 1) != 0; }

/// An address, or an address, "/" and a prefix length; nothing when it is neither.
std::optional<Block> parse_block(std::string_view text)
{
    const std::size_t slash = text.find('/');
    const std::string address(text.substr(0, slash));
    Block block;
    block.family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    if (::inet_pton(block.family, address.c_str(), block.bytes.data()) != 1) return std::nullopt;
    block.prefix = block.width();
    if (slash == std::string_view::npos) return block;
    const std::string_view length = text.substr(slash + 1);
    const auto [end, err] = std::from_chars(length.data(), length.data() + length.size(), block.prefix);
    if (err != std::errc{} || end != length.data() + length.size() || block.prefix > block.width())
        return std::nullopt;
    return block;
}

bool is_mapped(const Block& block)
{
    constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return block.family == AF_INET6 && std::equal(kMapped.begin(), kMapped.end(), block.bytes.begin());
}

std::string show(const Block& block)
{
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(block.family, block.bytes.data(), text.data(), text.size());
    return block.prefix == block.width() ? text.data() : fmt::format("{}/{}", text.data(), block.prefix);
}

Result<std::string> canonical_block(std::string_view text)
{
    const auto block = parse_block(text);
    if (!block) return fail(Code::Invalid, "'{}' is not an address or a CIDR block", printable(text, 80));
    if (is_mapped(*block))
        return fail(Code::Invalid, "'{}' is an IPv4 address in disguise: write it as one",
                    printable(text, 80));
    if (block->prefix == 0)
        return fail(Code::Invalid, "'{}' is every address: write network \"open\"", printable(text, 80));
    for (unsigned i = block->prefix; i < block->width(); ++i)
        if (bit(*block, i))
            return fail(Code::Invalid, "'{}' has bits beyond its prefix", printable(text, 80));
    return show(*block);
}

bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// What inet_aton(3) would take for a number: such a "name" reaches an address no rule shows.
bool reads_as_number(std::string_view label)
{
    const bool hex = label.starts_with("0x");
    if (hex) label.remove_prefix(2);
    return std::ranges::all_of(
        label, [&](char c) { return (c >= '0' && c <= '9') || (hex && c >= 'a' && c <= 'f'); });
}

Status check_label(std::string_view label, std::string_view whole)
{
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-' ||
        !std::ranges::all_of(label, is_name_character))
        return fail(Code::Invalid, "'{}' is not a host name (international names in their xn-- form)",
                    printable(whole, 80));
    return {};
}

} // namespace

Result<std::string> canonical_host(std::string_view text)
{
    if (text == "*") return fail(Code::Invalid, "'*' is every host: write network \"open\"");
    if (text.find_first_of(":/") != std::string_view::npos) return canonical_block(text);
    std::string host(text);
    for (char& c : host)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const std::string_view name = std::string_view(host).substr(host.starts_with("*.") ? 2 : 0);
    if (name.size() > 253) return fail(Code::Invalid, "a host name of {} bytes; at most 253", name.size());
    const auto labels = split(name, '.');
    for (const auto& label : labels) BERTH_CHECK(check_label(label, text));
    if (reads_as_number(labels.back())) return canonical_block(text);
    return host;
}

bool is_address(std::string_view host) { return parse_block(host).has_value(); }

bool host_covers(std::string_view outer, std::string_view inner)
{
    if (outer == inner) return true;
    const auto wide = parse_block(outer);
    const auto narrow = parse_block(inner);
    if (wide && narrow) {
        if (wide->family != narrow->family || wide->prefix > narrow->prefix) return false;
        for (unsigned i = 0; i < wide->prefix; ++i)
            if (bit(*wide, i) != bit(*narrow, i)) return false;
        return true;
    }
    if (wide || narrow || !outer.starts_with("*.")) return false;
    const std::string_view below = outer.substr(1);
    const std::string_view name = inner.substr(inner.starts_with("*.") ? 2 : 0);
    return name.size() > below.size() && name.ends_with(below);
}

} // namespace berth::policy
