#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/child.hpp"

namespace berth::bench {

/// An HTTP server as small as one can be written: epoll, one thread, the body of each request comes back.
/// Prints its port; runs until its standard input ends.
[[nodiscard]] int serve_echo();

/// The same as a process of its own, gone with this.
class Echo {
public:
    [[nodiscard]] static Result<Echo> start();
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] pid_t pid() const noexcept { return child_.pid(); }

private:
    Echo(sys::Child child, UniqueFd input, std::uint16_t port)
        : child_(std::move(child)), input_(std::move(input)), port_(port)
    {
    }
    sys::Child child_;
    UniqueFd input_;
    std::uint16_t port_;
};

/// A connection to a port of loopback; whoever waits on it does so for half a minute at most.
[[nodiscard]] Result<UniqueFd> dial(std::uint16_t port);

/// Connections to a server on loopback that stay open and send the same request again and again.
class Load {
public:
    [[nodiscard]] static Result<Load> connect(std::uint16_t port, std::size_t connections);

    /// Each connection sends it, then each reads its answer, so often. Every answer must be a success.
    [[nodiscard]] Status run(const std::string& request, std::size_t rounds);
    [[nodiscard]] std::size_t connections() const noexcept { return sockets_.size(); }

private:
    std::vector<UniqueFd> sockets_;
};

/// "POST /target HTTP/1.1 …" with a body of JSON.
[[nodiscard]] std::string json_post(const std::string& target, const std::string& more_headers,
                                    const std::string& body);

} // namespace berth::bench
