#include "server/codex/destinations.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "policy/network_host.hpp"

namespace berth::codex {

namespace {

struct Block4 {
    std::uint32_t first;
    unsigned prefix;
};
constexpr std::array<Block4, 16> kSpecial4{{{0x00000000, 8},  // this network
                                            {0x0a000000, 8},  // private
                                            {0x64400000, 10}, // shared by a provider; a cloud's metadata
                                            {0x7f000000, 8},  // loopback
                                            {0xa83f8110, 32}, // a cloud's own services
                                            {0xa9fe0000, 16}, // link-local, metadata
                                            {0xac100000, 12}, // private
                                            {0xc0000000, 24}, // protocols
                                            {0xc0000200, 24}, // documentation
                                            {0xc0586300, 24}, // relays
                                            {0xc0a80000, 16}, // private
                                            {0xc6120000, 15}, // benchmarks
                                            {0xc6336400, 24}, // documentation
                                            {0xcb007100, 24}, // documentation
                                            {0xe0000000, 4},  // multicast
                                            {0xf0000000, 4}}};

bool is_special4(std::uint32_t address)
{
    return std::ranges::any_of(
        kSpecial4, [&](const Block4& block) { return (address ^ block.first) >> (32 - block.prefix) == 0; });
}

/// Only what is given out for the internet, and nothing of it that stands for an IPv4 address.
bool is_special6(const in6_addr& address)
{
    const auto* const b = &address.s6_addr[0];
    if ((b[0] & 0xe0) != 0x20) return true;                              // outside of 2000::/3
    if (b[0] == 0x20 && b[1] == 0x01 && (b[2] & 0xfe) == 0) return true; // 2001::/23: Teredo and others
    if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0d && b[3] == 0xb8) return true; // documentation
    if (b[0] == 0x20 && b[1] == 0x02) return true;                                 // 6to4
    return b[0] == 0x3f && b[1] == 0xff && (b[2] & 0xf0) == 0;                     // documentation
}

std::string text_of(const sockaddr& address, socklen_t size)
{
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(&address, size, &text[0], sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
    return &text[0];
}

} // namespace

bool is_special(const sockaddr& address)
{
    if (address.sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        return is_special4(ntohl(four.sin_addr.s_addr));
    }
    if (address.sa_family != AF_INET6) return true;
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    return six.sin6_scope_id != 0 || is_special6(six.sin6_addr);
}

Result<Destination> parse_destination(std::string_view text)
{
    const auto bad = [&](std::string_view why) {
        return fail(Code::Invalid, "'{}' is no HOST or HOST:PORT: {}", printable(text, 100), why);
    };
    Destination out;
    std::string_view host = text;
    std::string_view port;
    if (host.starts_with('[')) {
        const auto end = host.find(']');
        if (end == std::string_view::npos) return bad("a bracket is open");
        const auto rest = host.substr(end + 1);
        if (!rest.empty() && !rest.starts_with(':')) return bad("a port follows a colon");
        port = rest.empty() ? rest : rest.substr(1);
        if (rest == ":") return bad("the port is missing");
        host = host.substr(1, end - 1);
    } else if (std::ranges::count(host, ':') == 1) {
        port = host.substr(host.find(':') + 1);
        host = host.substr(0, host.find(':'));
        if (port.empty()) return bad("the port is missing");
    }
    if (host.find('/') != std::string_view::npos) return bad("a block of addresses is not one host");
    if (!port.empty()) {
        const auto number = parse_int(port, 1, 65535, "port");
        if (!number) return bad("a port is 1 to 65535");
        out.port = static_cast<std::uint16_t>(*number);
    }
    BERTH_TRY(out.host, policy::canonical_host(host));
    return out;
}

bool Destinations::covers(std::string_view host, std::uint16_t port) const
{
    return std::ranges::any_of(all_, [&](const Destination& one) {
        return (one.port == 0 || one.port == port) && policy::host_covers(one.host, host);
    });
}

Status Destinations::check(const std::string& host, std::uint16_t port) const
{
    BERTH_TRY(const auto name, policy::canonical_host(host));
    if (covers(name, port)) return {};
    return fail(Code::Denied, "{}:{} is not among the hosts that the operator allows", printable(host, 100),
                port);
}

Result<std::vector<std::string>> Destinations::find(const std::string& host, std::uint16_t port) const
{
    BERTH_CHECK(check(host, port));
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int wrong = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); wrong != 0)
        return fail(Code::Unavailable, "{}: {}", printable(host, 100), ::gai_strerror(wrong));
    const ScopeExit free([&] { ::freeaddrinfo(found); });
    std::vector<std::string> out;
    std::string kept;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
        std::string address = text_of(*one->ai_addr, one->ai_addrlen);
        if (address.empty() || std::ranges::find(out, address) != out.end()) continue;
        const auto named = policy::canonical_host(address);
        if (!is_special(*one->ai_addr) || (named && covers(*named, port)))
            out.push_back(std::move(address));
        else
            kept = std::move(address);
    }
    if (!out.empty()) return out;
    if (kept.empty()) return fail(Code::Unavailable, "{} has no address", printable(host, 100));
    return fail(Code::Denied,
                "{} leads to {}, which is not of the internet: the operator has to name that address, too",
                printable(host, 100), kept);
}

} // namespace berth::codex
