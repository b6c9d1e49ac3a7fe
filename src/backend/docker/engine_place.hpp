#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.hpp"

namespace berth::docker {

/// Where an engine listens.
struct EnginePlace {
    std::string socket; ///< a unix socket; else host and port
    std::string host;
    std::uint16_t port = 0;
    bool tls = false;
    bool verify = true; ///< of TLS: the certificate must be good for the host
    std::string
        certificates; ///< a directory with ca.pem, cert.pem and key.pem; empty: the system's trust, no client

    /// As DOCKER_HOST writes it.
    [[nodiscard]] std::string text() const;
    /// It runs on this machine: what we name here it can mount.
    [[nodiscard]] bool local() const noexcept { return !socket.empty(); }
    /// It is reached through this machine's own loopback: it may run here, or be forwarded.
    [[nodiscard]] bool loopback() const;
    bool operator==(const EnginePlace&) const = default;
};

/// "unix:///run/docker.sock", "tcp://host:2376".
[[nodiscard]] Result<EnginePlace> parse_engine(std::string_view text);

/// The engine that docker's own client would talk to: DOCKER_HOST, then the context of DOCKER_CONTEXT or of
/// its configuration, then the usual socket. `environment` is read, never the process's own.
[[nodiscard]] Result<EnginePlace> find_engine(const std::map<std::string, std::string>& environment);

/// Those of this process's variables that find_engine() looks at.
[[nodiscard]] std::map<std::string, std::string> engine_environment();

} // namespace berth::docker
