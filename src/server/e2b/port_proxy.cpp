#include "server/e2b/port_proxy.hpp"

#include <algorithm>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/encoding.hpp"
#include "server/e2b/proxy_answer.hpp"
#include "server/e2b/rpc.hpp"
#include "server/gate/port_proxy.hpp"

namespace berth::e2b {

namespace {

using namespace boost::asio::experimental::awaitable_operators;

/// What tells us where a request goes, and what lets it: nothing for the program inside, whose own secrets
/// may have the same headers.
bool for_us(gate::Ground& ground, const Entry& entry, std::string_view name, std::string_view value)
{
    for (const std::string_view one : {"e2b-sandbox-id", "e2b-sandbox-port", "e2b-traffic-access-token"})
        if (http::same_word(name, one)) return true;
    if (http::same_word(name, "x-access-token"))
        return !entry.token.empty() && equal_secret(entry.token, value);
    return http::same_word(name, "x-api-key") && ground.keys.tenant_of(value).has_value();
}

std::string masked_host(std::string mask, std::uint16_t port)
{
    constexpr std::string_view kPort = "${PORT}";
    if (const auto at = mask.find(kPort); at != std::string::npos)
        mask.replace(at, kPort.size(), std::to_string(port));
    return mask;
}

http::Response closed(const EnvdCall& call, std::uint16_t port, std::string message)
{
    return proxy_answer(call.exchange.head(), {.sandbox = call.entry->id,
                                               .message = std::move(message),
                                               .port = port,
                                               .title = "Closed Port Error"});
}

} // namespace

Task<void> proxy_port(gate::Ground& ground, EnvdCall& call, std::uint16_t port)
{
    const auto& ports = call.entry->ingress.https_ports;
    const bool tls = std::ranges::find(ports, port) != ports.end();
    const auto inside = co_await gate::dial_port(call.backend, call.handle, port,
                                                 tls ? gate::PortSpeaks::Tls : gate::PortSpeaks::Plain);
    if (!inside) {
        (void)co_await call.exchange.send(closed(call, port, "The sandbox is running but port is not open"));
        co_return;
    }
    gate::PortRequest request{.target = call.exchange.head().target,
                              .host = masked_host(call.entry->ingress.mask_host, port)};
    request.for_us = [&](std::string_view name, std::string_view value) {
        return for_us(ground, *call.entry, name, value);
    };
    request.refusal = [&](std::string why) { return closed(call, port, std::move(why)); };
    const auto turn = call.entry->turns;
    const auto first = co_await (gate::pass_request(call.exchange, **inside, request) ||
                                 rpc::interrupted(call.exchange, call.entry));
    if (first.index() == 1 || call.entry->turns != turn) call.exchange.drop();
}

} // namespace berth::e2b
