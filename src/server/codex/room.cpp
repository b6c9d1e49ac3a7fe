#include "server/codex/room.hpp"

#include <chrono>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/http/websocket.hpp"

namespace berth::codex {

namespace {

/// The socket belongs to the exchange it came by, which outlives the conversation.
class SocketWire final : public Wire {
public:
    explicit SocketWire(http::WebSocket& socket) : socket_(socket) {}
    Task<std::optional<std::string>> read() override { co_return co_await socket_.read(); }
    Task<Status> write(std::string message) override { co_return co_await socket_.write(std::move(message)); }
    void probe(std::chrono::milliseconds patience) override { socket_.probe(patience); }
    void close() noexcept override { socket_.close(); }
    [[nodiscard]] bool resumable() const noexcept override { return true; }

private:
    http::WebSocket& socket_;
};

constexpr auto kLook = std::chrono::milliseconds(5);

} // namespace

Task<void> Room::end()
{
    co_await sessions_.end();
    // Connections are gone, so every call outside has been hung up; one that still connects gives up soon.
    boost::asio::steady_timer breath(loop_);
    while (web_ && !web_->idle()) {
        breath.expires_after(kLook);
        (void)co_await breath.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
}

Task<void> Room::welcome(http::Exchange& exchange, std::string tenant, PlaceMaker places)
{
    const auto socket = co_await http::WebSocket::accept(exchange);
    if (!socket) co_return;
    auto connection = std::make_shared<Connection>(
        sessions_, std::move(tenant), std::make_unique<SocketWire>(**socket), loop_, std::move(places), web_);
    present_.insert(connection.get());
    co_await connection->run();
    present_.erase(connection.get());
    co_await (*socket)->end();
}

Task<Status> Room::converse(int in, int out, PlaceMaker places)
{
    BERTH_CO_TRY(auto wire, make_line_wire(loop_, in, out));
    auto connection = std::make_shared<Connection>(sessions_, std::string{}, std::move(wire), loop_,
                                                   std::move(places), web_);
    present_.insert(connection.get());
    co_await connection->run();
    present_.erase(connection.get());
    co_return Status{};
}

void Room::leave() noexcept
{
    for (auto* const connection : present_) connection->close();
}

} // namespace berth::codex
