#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "http_client/http.hpp"

namespace berth::http_client {

/// One server, and a few connections to it that wait to be used again. Calls block. For any thread.
class Client {
public:
    explicit Client(Place place) : place_(std::move(place)) {}

    [[nodiscard]] const Place& place() const noexcept { return place_; }

    /// A failure whose `sent` is false happened before anything was sent: whatever the request does, it may
    /// be tried again.
    struct Outcome {
        Result<HttpAnswer> answer;
        bool sent = true;
    };
    [[nodiscard]] Outcome call(HttpRequest request, const HttpLimits& limits = {}, const ByteSink& sink = {});

    /// A connection of its own, for an answer that takes as long as it takes.
    [[nodiscard]] Result<Wire> connect() const;

private:
    struct Idle {
        Wire wire;
        SteadyTime since{};
    };
    [[nodiscard]] std::optional<Wire> take();
    void put(Wire wire);

    Place place_;
    std::mutex mutex_;
    std::vector<Idle> idle_;
};

} // namespace berth::http_client
