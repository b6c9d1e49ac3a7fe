#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "server/codex/rpc.hpp"
#include "server/codex/web.hpp"

namespace berth::codex {

/// The calls to the outside of one connection; they end with it. On the loop.
class WebCalls : public std::enable_shared_from_this<WebCalls> {
public:
    using Notify = std::function<void(std::string_view method, json::Object params)>;
    /// Returns when the client has taken what it was sent.
    using Room = std::function<Task<void>()>;
    WebCalls(std::shared_ptr<Web> web, boost::asio::any_io_executor loop, Notify notify, Room room);

    /// http/request. Where the body comes in pieces they are told after the answer.
    Task<Answer> request(json::Value params);
    /// Nobody is told any more.
    void close() noexcept;

private:
    /// A place among the calls of all connections.
    struct Seat {
        explicit Seat(Web& of) noexcept : web(of) {}
        Seat(const Seat&) = delete;
        Seat& operator=(const Seat&) = delete;
        ~Seat() { web.leave(); }
        Web& web;
    };
    Task<Answer> whole(std::shared_ptr<WebCall> call);
    Task<void> stream(std::string id, std::shared_ptr<WebCall> call, std::shared_ptr<Seat> seat);

    std::shared_ptr<Web> web_;
    boost::asio::any_io_executor loop_;
    Notify notify_;
    Room room_;
    bool closed_ = false;
    std::map<std::string, std::shared_ptr<WebCall>> live_; ///< by request id
};

} // namespace berth::codex
