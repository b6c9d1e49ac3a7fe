#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::http_client {

/// Where a server listens.
struct Place {
    std::string socket; ///< a unix socket; else host and port
    std::string host;
    std::string address{}; ///< what the host was found to be: dialled instead of looking it up again
    std::uint16_t port = 0;
    bool tls = false;
    bool verify = true; ///< of TLS: the certificate must be good for the host
    std::string
        certificates; ///< a directory with ca.pem, cert.pem and key.pem; empty: the system's trust, no client
    std::string who = "the server"; ///< in messages: "the engine"
    std::string advice{};           ///< what a person can do when nobody listens there; may be empty
    std::string refused{};          ///< the same when a socket may not be used

    /// "unix:///run/x.sock", "https://host", "http://host:8080".
    [[nodiscard]] std::string text() const;
    /// "host" or "host:port", as the header Host has it.
    [[nodiscard]] std::string authority() const;
    [[nodiscard]] bool local() const noexcept { return !socket.empty(); }
    bool operator==(const Place&) const = default;
};

/// A place and the path below which everything lies, without a final slash.
struct Origin {
    Place place;
    std::string path;
    bool operator==(const Origin&) const = default;
};

/// "http://host[:port][/path]" or "https://…"; no user, query or fragment.
[[nodiscard]] Result<Origin> parse_url(std::string_view text);

} // namespace berth::http_client
