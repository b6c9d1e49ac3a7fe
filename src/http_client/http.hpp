#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/archive.hpp"
#include "http_client/wire.hpp"

namespace berth::http_client {

/// One request. The body is `body`, or what `source` gives until it gives nothing.
struct HttpRequest {
    std::string method = "GET";
    std::string target;
    std::map<std::string, std::string> headers{};
    std::string body{};
    ByteSource source{};
    std::optional<std::uint64_t> length{}; ///< of what `source` gives; else it goes in chunks
    bool keep = false;                     ///< the connection is to be used again
};

struct HttpAnswer {
    unsigned status = 0;
    std::map<std::string, std::string> headers; ///< names in lower case
    std::string body;                           ///< empty where a sink took it
    bool reusable = false;                      ///< another request may follow on the same connection

    [[nodiscard]] std::string header(const std::string& name) const
    {
        const auto at = headers.find(name);
        return at == headers.end() ? std::string{} : at->second;
    }
};

/// How long to wait, and how much to take.
struct HttpLimits {
    std::chrono::milliseconds patience{60'000}; ///< without any progress
    Bytes body = 32_MiB;                        ///< of an answer that is kept in memory
};

/// Sends and reads one exchange; the connection is of no use afterwards unless the answer says so. `sink`
/// gets the body of an answer that is a success, as it comes; the body of a refusal is kept, up to 64 KiB.
/// `host` is the name the server is called by.
[[nodiscard]] Result<HttpAnswer> exchange(Wire& wire, std::string_view host, const HttpRequest& request,
                                          const HttpLimits& limits, const ByteSink& sink = {});

/// `text` as part of a path or query.
[[nodiscard]] std::string url_encode(std::string_view text);

} // namespace berth::http_client
