#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
    std::map<std::string, std::string> headers;              ///< names in lower case
    std::vector<std::pair<std::string, std::string>> fields; ///< the same in order, twice where they came so
    std::string body;                                        ///< empty where a sink took it
    bool reusable = false;                                   ///< another request may follow on the same wire

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

/// One exchange whose answer is read piece by piece, by threads that may block. The connection is its own.
class Exchange {
public:
    /// Sends, and reads the head of the answer. `patience` is without any progress.
    [[nodiscard]] static Result<Exchange> begin(Wire& wire, std::string_view host, const HttpRequest& request,
                                                std::chrono::milliseconds patience);
    Exchange(Exchange&&) noexcept;
    Exchange& operator=(Exchange&&) noexcept;
    ~Exchange();

    [[nodiscard]] const HttpAnswer& head() const noexcept { return head_; }
    /// What comes next of the body, some 64 KiB at most; empty: that was all.
    [[nodiscard]] Result<std::string_view> next(std::chrono::milliseconds patience);

private:
    class Reading;
    Exchange();
    std::unique_ptr<Reading> reading_;
    HttpAnswer head_;
    friend Result<HttpAnswer> exchange(Wire& wire, std::string_view host, const HttpRequest& request,
                                       const HttpLimits& limits, const ByteSink& sink);
};

/// Sends and reads one exchange; the connection is of no use afterwards unless the answer says so. `sink`
/// gets the body of an answer that is a success, as it comes; the body of a refusal is kept, up to 64 KiB.
/// `host` is the name the server is called by.
[[nodiscard]] Result<HttpAnswer> exchange(Wire& wire, std::string_view host, const HttpRequest& request,
                                          const HttpLimits& limits, const ByteSink& sink = {});

/// `text` as part of a path or query.
[[nodiscard]] std::string url_encode(std::string_view text);

} // namespace berth::http_client
