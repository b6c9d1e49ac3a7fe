#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/blocking_pool.hpp"
#include "http_client/http.hpp"
#include "protocol/codex/http.hpp"
#include "server/codex/destinations.hpp"

namespace berth::codex {

/// One request to the outside and its answer, which is read by threads that may block.
class WebCall {
public:
    WebCall(const Destinations& allowed, HttpParams params);

    /// Until the head of the answer that counts is there: redirects are followed where that was asked for,
    /// each only to where the first request might have gone. Errors: Invalid, Denied, or of the transport.
    [[nodiscard]] Status begin();
    [[nodiscard]] const http_client::HttpAnswer& head() const { return exchange_->head(); }
    /// Empty: that was all.
    [[nodiscard]] Result<std::string> next();
    /// Nobody wants it any more: every wait ends. For any thread.
    void hang_up();

private:
    struct Target {
        http_client::Place place;
        std::string path; ///< with the query
    };
    [[nodiscard]] static Result<Target> parse(const std::string& url);
    [[nodiscard]] Status ask(const Target& target);
    [[nodiscard]] Status redirect(Target& target);
    [[nodiscard]] Result<std::chrono::milliseconds> patience() const;

    const Destinations& allowed_;
    HttpParams params_;
    SteadyTime until_;
    std::mutex mutex_; ///< of the wire, towards hang_up()
    std::optional<http_client::Wire> wire_;
    std::optional<http_client::Exchange> exchange_;
    std::uint64_t taken_ = 0; ///< of the body
    std::atomic<bool> unwanted_ = false;
};

/// The way out that an operator grants: hosts, and threads to wait on. Shared by all connections.
class Web {
public:
    explicit Web(std::vector<Destination> allowed);

    [[nodiscard]] const Destinations& allowed() const noexcept { return allowed_; }
    [[nodiscard]] BlockingPool& pool() noexcept { return pool_; }
    /// A thread for one more call; false: all have one. On the loop, as leave().
    [[nodiscard]] bool enter() noexcept;
    void leave() noexcept { --calls_; }
    [[nodiscard]] bool idle() const noexcept { return calls_ == 0; }

    static constexpr std::size_t kCalls = 32;

private:
    Destinations allowed_;
    std::size_t calls_ = 0;
    BlockingPool pool_;
};

} // namespace berth::codex
