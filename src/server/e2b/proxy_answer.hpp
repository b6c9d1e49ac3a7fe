#pragma once

#include <string>

#include "server/http/head.hpp"

namespace berth::e2b {

/// What a client of a sandbox's port is told in the sandbox's stead.
struct ProxyRefusal {
    int status = 502;
    std::string sandbox;
    std::string message;
    std::uint16_t port = 0; ///< 0: not about one
    const char* title = "Sandbox Error";
};

/// JSON, or a page for a person who looks at it with a browser.
[[nodiscard]] http::Response proxy_answer(const http::RequestHead& head, const ProxyRefusal& refusal);

} // namespace berth::e2b
