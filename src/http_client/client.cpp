#include "http_client/client.hpp"

namespace berth::http_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kConnectPatience = 10s;
constexpr auto kIdle = 20s; // well below the patience of servers: a connection must not be closed under us
constexpr std::size_t kMostIdle = 16;

} // namespace

Result<Wire> Client::connect() const
{
    return Wire::connect(place_, system_clock().steady() + kConnectPatience);
}

std::optional<Wire> Client::take()
{
    const std::scoped_lock lock(mutex_);
    const auto now = system_clock().steady();
    while (!idle_.empty()) {
        Idle one = std::move(idle_.back());
        idle_.pop_back();
        // Nothing may come on it but its end.
        if (now - one.since < kIdle && !one.wire.readable()) return std::move(one.wire);
    }
    return std::nullopt;
}

void Client::put(Wire wire)
{
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < kMostIdle)
        idle_.push_back({.wire = std::move(wire), .since = system_clock().steady()});
}

Client::Outcome Client::call(HttpRequest request, const HttpLimits& limits, const ByteSink& sink)
{
    request.keep = true;
    auto wire = take();
    if (!wire) {
        auto made = connect();
        if (!made) return {.answer = std::unexpected(std::move(made).error()), .sent = false};
        wire = *std::move(made);
    }
    auto answer = exchange(*wire, place_.authority(), request, limits, sink);
    if (answer && answer->reusable) put(*std::move(wire));
    if (!answer) {
        const int why = answer.error().sys.value();
        if (why == ECONNRESET || why == EPIPE) answer.error().code = Code::Unavailable;
    }
    return {.answer = std::move(answer)};
}

} // namespace berth::http_client
