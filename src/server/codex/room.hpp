#pragma once

#include <set>

#include "server/codex/connection.hpp"
#include "server/http/exchange.hpp"

namespace berth::codex {

/// Everybody who speaks with one server.
class Room {
public:
    /// `web` is the way out that the operator grants; null: none.
    Room(boost::asio::any_io_executor loop, std::shared_ptr<Web> web)
        : sessions_(loop), loop_(std::move(loop)), web_(std::move(web))
    {
    }

    /// A request that wants to become a WebSocket, already let in. Returns when the client has left.
    Task<void> welcome(http::Exchange& exchange, std::string tenant, PlaceMaker places);
    /// The same on lines.
    Task<Status> converse(int in, int out, PlaceMaker places);
    Task<void> sweep() { co_await sessions_.sweep(); }
    /// Cuts every connection.
    void leave() noexcept;
    Task<void> end();

private:
    Sessions sessions_;
    boost::asio::any_io_executor loop_;
    std::shared_ptr<Web> web_; ///< shared with the calls that are under way
    std::set<Connection*> present_;
};

} // namespace berth::codex
