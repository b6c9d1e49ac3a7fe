#pragma once

#include <set>

#include "server/codex/connection.hpp"
#include "server/http/exchange.hpp"

namespace berth::codex {

/// Everybody who speaks with one executor.
class Room {
public:
    Room(local::StateDir state, Ceiling ceiling, BlockingPool& pool, boost::asio::any_io_executor loop)
        : executor_(std::move(state), std::move(ceiling), pool), sessions_(executor_, loop),
          loop_(std::move(loop))
    {
    }

    /// A request that wants to become a WebSocket, already let in. Returns when the client has left.
    Task<void> welcome(http::Exchange& exchange, std::string tenant);
    /// The same on lines.
    Task<Status> converse(int in, int out);
    Task<void> sweep() { co_await sessions_.sweep(); }
    /// Cuts every connection.
    void leave() noexcept;
    Task<void> end() { co_await sessions_.end(); }

private:
    Executor executor_;
    Sessions sessions_;
    boost::asio::any_io_executor loop_;
    std::set<Connection*> present_;
};

} // namespace berth::codex
