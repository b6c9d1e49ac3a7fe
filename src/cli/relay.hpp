#pragma once

#include <boost/asio/generic/stream_protocol.hpp>

#include "base/unique_fd.hpp"
#include "cli/shared_end.hpp"

namespace berth::cli {

using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// A connected stream socket of any family, for the loop.
[[nodiscard]] Result<StreamSocket> stream_socket(const boost::asio::any_io_executor& loop, UniqueFd socket);

/// Passes bytes both ways. The end of one direction is passed on and leaves the other open; returns when
/// both have ended.
Task<void> relay(StreamSocket& one, StreamSocket& other);

/// The same for our own streams; returns when the peer has said everything, or nobody reads us any more.
Task<void> relay(SharedEnd& in, SharedEnd& out, StreamSocket& peer);

} // namespace berth::cli
