#include "base/strings.hpp"
#include "server/gate/port_proxy.hpp"
#include "server/own/api.hpp"

namespace berth::own {

namespace {

/// What a program inside is asked for: all behind ".../ports/PORT".
std::string target_inside(const http::RequestHead& head)
{
    const auto start = head.target.find("/v1/");
    std::size_t at = start;
    constexpr int parts = 5; // v1, sandboxes, its id, ports, the port
    for (int i = 0; i < parts && at != std::string::npos; ++i) at = head.target.find_first_of("/?", at + 1);
    if (at == std::string::npos) return "/";
    std::string out = head.target.substr(at);
    return out.starts_with('?') ? "/" + out : out;
}

} // namespace

/// As HTTP, or as bytes both ways where the client asks for "Upgrade: tcp".
Task<Answer> Api::reach_port(Call& call)
{
    auto& exchange = call.exchange;
    const auto& head = exchange.head();
    const auto port = parse_int(call.parameters[1], 1, 65535, "port");
    BERTH_CO_TRY(auto used, co_await usable(call));
    if (!port) co_return std::unexpected(port.error());
    auto inside = co_await in(call, used, [&](Backend& where, const SandboxRecord& record) {
        return gate::dial_port(where, Lifecycle::handle(record), static_cast<std::uint16_t>(*port));
    });
    const auto nobody = [&](std::string why) {
        const Error error{.code = Code::Unavailable,
                          .message = fmt::format("port {} of {}: {}", *port, used.record.id(), why)};
        return http::json_response(502, json::error_document(error));
    };
    if (!inside && inside.error().code == Code::Unsupported) co_return std::unexpected(inside.error());
    if (!inside) co_return nobody("nobody listens there");
    const bool stream = head.upgrade && http::same_word(head.value("upgrade"), "tcp");
    if (stream) {
        BERTH_CO_CHECK(co_await exchange.begin(101, {{"Connection", "Upgrade"}, {"Upgrade", "tcp"}}));
        co_await gate::pass_stream(exchange, **inside);
        co_return http::Response{};
    }
    gate::PortRequest request{.target = target_inside(head)};
    // A page from inside has our address in a browser: it must not be one of ours to it.
    request.added = {{"Content-Security-Policy", "sandbox allow-scripts allow-forms allow-popups"}};
    request.for_us = [&](std::string_view name, std::string_view) {
        return http::same_word(name, "x-api-key") ||
               (call.by_bearer && http::same_word(name, "authorization"));
    };
    request.refusal = nobody;
    co_await gate::pass_request(exchange, **inside, request);
    co_return http::Response{};
}

} // namespace berth::own
