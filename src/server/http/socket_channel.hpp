#pragma once

#include <memory>

#include <boost/asio/generic/stream_protocol.hpp>

#include "server/http/channel.hpp"

namespace berth::http {

using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// Bytes as they are, over a connected stream socket of any family.
[[nodiscard]] std::unique_ptr<Channel> make_channel(StreamSocket socket);

/// What both kinds of channels have in common.
[[nodiscard]] Error channel_error(const boost::system::error_code& error, bool late);
Task<void> peer_gone(StreamSocket& socket);
void close_socket(StreamSocket& socket, bool reset) noexcept;

} // namespace berth::http
