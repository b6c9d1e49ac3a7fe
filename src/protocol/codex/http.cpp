#include "protocol/codex/http.hpp"

#include <algorithm>
#include <array>

#include "base/encoding.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kMaxHeaders = 256;
constexpr std::size_t kMaxHeader = 32'768;
constexpr std::size_t kMaxUrl = 16'384;
constexpr std::size_t kMaxId = 1024;
constexpr std::int64_t kMaxTimeout = 24LL * 3600 * 1000;

constexpr std::array<std::string_view, 7> kMethods{"GET",   "HEAD",   "POST",   "PUT",
                                                   "PATCH", "DELETE", "OPTIONS"};
/// Whoever could set these would reach another server behind the same address, or put a second request into
/// the first.
constexpr std::array<std::string_view, 9> kFraming{"host",       "content-length", "transfer-encoding",
                                                   "connection", "upgrade",        "te",
                                                   "trailer",    "expect",         "keep-alive"};

bool is_token(std::string_view text)
{
    constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::ranges::all_of(text, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               others.find(c) != std::string_view::npos;
    });
}

bool is_value(std::string_view text)
{
    return std::ranges::all_of(text, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c == '\t' || (byte >= ' ' && byte != 0x7f);
    });
}

Result<std::pair<std::string, std::string>> read_header(const json::Reader& reader)
{
    BERTH_TRY(const auto name, reader.at("name"));
    BERTH_TRY(auto text, name.string());
    if (!is_token(text)) return name.refuse("'{}' is no name of a header", printable(text, 60));
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (std::ranges::find(kFraming, text) != kFraming.end() || text.starts_with("proxy-"))
        return name.refuse("header {} is ours to set", text);
    BERTH_TRY(const auto from, reader.find("valueEnvVar"));
    if (from) return from->refuse("no variable of this server is sent anywhere");
    BERTH_TRY(const auto member, reader.at("value"));
    BERTH_TRY(auto value, member.string());
    if (!is_value(value) || value.size() > kMaxHeader)
        return member.refuse("the value of header {} cannot be sent", text);
    return std::pair(std::move(text), std::move(value));
}

} // namespace

Result<HttpParams> read_http(const json::Value& params)
{
    const json::Reader reader(params);
    HttpParams out;
    BERTH_TRY(const auto method, reader.at("method"));
    BERTH_TRY(out.method, method.string());
    std::ranges::transform(out.method, out.method.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    if (std::ranges::find(kMethods, out.method) == kMethods.end())
        return method.refuse("method '{}' is not sent: one of {}", printable(out.method, 40),
                             fmt::join(kMethods, ", "));
    BERTH_TRY(const auto url, reader.at("url"));
    BERTH_TRY(out.url, url.string());
    if (out.url.size() > kMaxUrl) return url.refuse("{} bytes; at most {}", out.url.size(), kMaxUrl);
    BERTH_TRY(const auto headers, reader.find("headers"));
    if (headers) {
        BERTH_TRY(const auto items, headers->array());
        if (items.size() > kMaxHeaders)
            return headers->refuse("{} headers; at most {}", items.size(), kMaxHeaders);
        for (const auto& item : items) {
            BERTH_TRY(auto one, read_header(item));
            out.headers.push_back(std::move(one));
        }
    }
    BERTH_TRY(const auto body, reader.find("bodyBase64"));
    if (body) {
        BERTH_TRY(const auto text, body->string());
        auto bytes = base64_decode(text);
        if (!bytes) return body->refuse("it is no base64");
        out.body = *std::move(bytes);
    }
    BERTH_TRY(const auto timeout, reader.find("timeoutMs"));
    if (timeout) {
        BERTH_TRY(const auto value, timeout->integer(0, kMaxTimeout));
        out.timeout = std::chrono::milliseconds(value);
    }
    BERTH_TRY(const auto redirect, reader.find("redirectPolicy"));
    if (redirect) {
        BERTH_TRY(const auto word, redirect->string());
        if (word != "follow" && word != "stop")
            return redirect->refuse("unknown variant '{}'", printable(word, 60));
        if (word == "stop") out.redirect = HttpParams::Redirect::Stop;
    }
    BERTH_TRY(const auto id, reader.at("requestId"));
    BERTH_TRY(out.request_id, id.string());
    if (out.request_id.empty() || out.request_id.size() > kMaxId)
        return id.refuse("1 to {} bytes are needed", kMaxId);
    BERTH_TRY(const auto stream, reader.find("streamResponse"));
    if (stream) {
        BERTH_TRY(out.stream, stream->boolean());
    }
    return out;
}

} // namespace berth::codex
