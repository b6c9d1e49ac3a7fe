#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http/exchange.hpp"

namespace berth::http {

/// What a host has done since it began; for /metrics.
struct Counters {
    std::uint64_t connections = 0; ///< open now
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0; ///< for want of room
    std::uint64_t requests = 0;
    std::uint64_t active = 0; ///< being answered now
    std::uint64_t by_class[6] = {};
    std::uint64_t sent = 0;
};

using Handler = std::function<Task<void>(Exchange&)>;

struct TlsFiles {
    std::string certificate; ///< a PEM file, the chain
    std::string key;
};

struct HostOptions {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0; ///< 0: a free one
    std::size_t connections = 16'000;
    std::optional<TlsFiles> tls;
};

/// One listener and all that comes in by it, on the loop of whoever runs it.
class Host {
public:
    /// Binds at once, so that whoever asks finds us before run() begins.
    [[nodiscard]] static Task<Result<std::unique_ptr<Host>>> open(HostOptions options, Handler handler);
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    ~Host();

    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] const Counters& counters() const noexcept;

    /// Accepts until stop() is called.
    Task<void> run();
    /// Accepts no more, lets what is being answered end for `patience`, and cuts the rest.
    Task<void> stop(std::chrono::milliseconds patience);

private:
    struct Parts;
    explicit Host(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

} // namespace berth::http
