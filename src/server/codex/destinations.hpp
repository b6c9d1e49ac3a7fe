#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::codex {

/// Where the operator lets clients send requests from this machine.
struct Destination {
    std::string host;       ///< a name, "*." and a name, or an address, in its one spelling
    std::uint16_t port = 0; ///< 0: any
    bool operator==(const Destination&) const = default;
};

/// "api.example.org", "*.example.org:8443", "127.0.0.1:8080", "[::1]:80".
[[nodiscard]] Result<Destination> parse_destination(std::string_view text);

class Destinations {
public:
    explicit Destinations(std::vector<Destination> all) : all_(std::move(all)) {}

    /// Whether requests to the host may be sent at all; Denied says what is missing.
    [[nodiscard]] Status check(const std::string& host, std::uint16_t port) const;
    /// The addresses of the host that may be dialled, as text. Those of this machine, of its neighbours and
    /// of its maker's services are left out unless the operator named that very address: whoever answers for
    /// a name decides what it leads to. Blocks; refuses when nothing is left.
    [[nodiscard]] Result<std::vector<std::string>> find(const std::string& host, std::uint16_t port) const;

private:
    [[nodiscard]] bool covers(std::string_view host, std::uint16_t port) const;
    std::vector<Destination> all_;
};

/// Not of the internet: loopback, private, link-local, shared, multicast, documentation, translated,
/// metadata.
[[nodiscard]] bool is_special(const sockaddr& address);

} // namespace berth::codex
