#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/http/exchange.hpp"

namespace berth::http {

struct WebSocketOptions {
    std::size_t message_limit = std::size_t{64} << 20; ///< of what comes in; more ends the connection
    std::size_t fragment = std::size_t{4} << 20;       ///< what goes out is cut into frames of this size
    std::chrono::seconds ping_every{30};               ///< a peer that is silent twice as long is gone
};

/// A WebSocket on a connection that was HTTP. One reader and one writer at a time, on the loop's thread.
class WebSocket {
public:
    /// Answers the upgrade. Invalid: it was none, and has been answered so.
    [[nodiscard]] static Task<Result<std::unique_ptr<WebSocket>>> accept(Exchange& exchange,
                                                                         WebSocketOptions options = {});
    virtual ~WebSocket() = default;

    /// The next message, text or binary; nothing when the peer has left, in whatever way.
    virtual Task<std::optional<std::string>> read() = 0;
    virtual Task<Status> write(std::string text) = 0;
    /// Asks whether anybody is there. When nothing comes back in `patience`, the connection is cut.
    virtual void probe(std::chrono::milliseconds patience) = 0;
    /// Ends it as the protocol has it: whoever reads, on either side, learns that this was the end.
    virtual Task<void> goodbye() = 0;
    /// Cuts the connection: whoever reads or writes learns of it.
    virtual void close() noexcept = 0;
    /// The last call: cuts it, and returns when nothing uses the connection any more.
    virtual Task<void> end() = 0;
};

} // namespace berth::http
