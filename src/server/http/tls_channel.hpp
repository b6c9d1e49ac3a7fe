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
/// Of a channel that make_tls_channel made.
Task<Status> tls_handshake(Channel& channel, SteadyTime until);

} // namespace berth::http
