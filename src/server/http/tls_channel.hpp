#pragma once

#include <memory>

#include "server/http/host.hpp"
#include "server/http/socket_channel.hpp"

namespace berth::http {

struct TlsContext; ///< OpenSSL's, which stays in one source

/// TLS 1.2 and newer, HTTP/1.1 only.
[[nodiscard]] Result<std::shared_ptr<TlsContext>> make_tls_context(const TlsFiles& files);
[[nodiscard]] std::unique_ptr<Channel> make_tls_channel(StreamSocket socket,
                                                        std::shared_ptr<TlsContext> context);
/// To a program that nobody vouches for: whatever certificate it has is taken. TLS here is what the program
/// speaks, and no protection.
[[nodiscard]] std::unique_ptr<Channel> make_tls_client_channel(StreamSocket socket);
/// Of a channel that one of these made.
Task<Status> tls_handshake(Channel& channel, SteadyTime until);

} // namespace berth::http
