#include "server/http/head.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/encoding.hpp"

namespace berth::http {

namespace {

constexpr std::size_t kUsualHead = 512;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

const std::string& http_date()
{
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    // The same for a second, and so for thousands of answers.
    thread_local std::time_t then = -1;
    thread_local std::string shown;
    if (now == then) return shown;
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[64];
    const auto size = std::strftime(&text[0], sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    shown.assign(&text[0], size);
    then = now;
    return shown;
}

/// What would let a value end its line is left out: a name in an answer must not become a header.
void append_line(std::string& out, std::string_view value)
{
    const auto ends = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::ranges::none_of(value, ends)) {
        out += value;
        return;
    }
    std::ranges::remove_copy_if(value, std::back_inserter(out), ends);
}

/// Calls `with` for each part; false where it does.
template <class F> bool each_part(std::string_view text, char separator, F with)
{
    for (std::size_t start = 0;;) {
        const std::size_t end = text.find(separator, start);
        if (!with(text.substr(start, end - start))) return false;
        if (end == std::string_view::npos) return true;
        start = end + 1;
    }
}

} // namespace

bool same_word(std::string_view one, std::string_view other) noexcept
{
    return std::ranges::equal(one, other, {}, lower, lower);
}

const std::string* find_header(const Pairs& headers, std::string_view name) noexcept
{
    for (const auto& [key, value] : headers)
        if (same_word(key, name)) return &value;
    return nullptr;
}

std::string_view RequestHead::value(std::string_view name) const noexcept
{
    const auto* const there = header(name);
    return there == nullptr ? std::string_view{} : std::string_view(*there);
}

const std::string* RequestHead::parameter(std::string_view name) const noexcept
{
    for (const auto& [key, value] : query)
        if (key == name) return &value;
    return nullptr;
}

std::string RequestHead::host() const
{
    std::string_view text = value("host");
    if (text.starts_with('[')) {
        text = text.substr(0, text.find(']') + 1);
    } else {
        text = text.substr(0, text.find(':'));
    }
    std::string out(text);
    std::ranges::transform(out, out.begin(), lower);
    return out;
}

std::string RequestHead::media_type() const
{
    std::string_view text = value("content-type");
    text = text.substr(0, text.find(';'));
    while (text.ends_with(' ')) text.remove_suffix(1);
    std::string out(text);
    std::ranges::transform(out, out.begin(), lower);
    return out;
}

Status split_target(RequestHead& head)
{
    const auto bad = [] { return fail(Code::Invalid, "the request's target is not a path"); };
    std::string_view target = head.target;
    // The form a client uses towards a proxy: what follows the host is the path.
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!target.starts_with(scheme)) continue;
        const auto slash = target.find('/', scheme.size());
        if (!same_word(target.substr(scheme.size(), slash - scheme.size()), head.value("host")))
            return fail(Code::Invalid, "the request's target and its Host header name different hosts");
        target = slash == std::string_view::npos ? "/" : target.substr(slash);
    }
    if (!target.starts_with('/')) return bad();
    const auto question = target.find('?');
    head.path = target.substr(0, question);
    head.segments.reserve(4);
    const bool whole = each_part(std::string_view(head.path).substr(1), '/', [&](std::string_view part) {
        if (part.find('%') == std::string_view::npos && part.find('\0') == std::string_view::npos) {
            head.segments.emplace_back(part);
            return true;
        }
        auto decoded = percent_decode(part);
        if (!decoded || decoded->find('\0') != std::string::npos) return false;
        head.segments.push_back(*std::move(decoded));
        return true;
    });
    if (!whole) return bad();
    while (!head.segments.empty() && head.segments.back().empty()) head.segments.pop_back();
    if (question == std::string_view::npos) return {};
    const bool read = each_part(target.substr(question + 1), '&', [&](std::string_view part) {
        if (part.empty()) return true;
        const auto equals = part.find('=');
        auto name = form_decode(part.substr(0, equals));
        auto value = form_decode(equals == std::string_view::npos ? "" : part.substr(equals + 1));
        if (!name || !value) return false;
        head.query.emplace_back(*std::move(name), *std::move(value));
        return true;
    });
    return read ? Status{} : bad();
}

Status check_single(const RequestHead& head)
{
    for (const std::string_view name :
         {"host", "origin", "authorization", "content-type", "x-api-key", "x-access-token", "e2b-sandbox-id",
          "e2b-sandbox-port", "e2b-traffic-access-token"}) {
        const auto named = [&](const auto& header) { return same_word(header.first, name); };
        if (std::ranges::count_if(head.headers, named) > 1)
            return fail(Code::Invalid, "the header {} is there twice", name);
    }
    return {};
}

Response& Response::with(std::string name, std::string value) &
{
    headers.emplace_back(std::move(name), std::move(value));
    return *this;
}

Response Response::with(std::string name, std::string value) &&
{
    headers.emplace_back(std::move(name), std::move(value));
    return std::move(*this);
}

Response json_response(int status, std::string body)
{
    return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

Response json_response(int status, const json::Object& document)
{
    return json_response(status, json::dump(document));
}

Response text_response(int status, std::string body)
{
    return {.status = status,
            .headers = {{"Content-Type", "text/plain; charset=utf-8"}},
            .body = std::move(body)};
}

Response empty_response(int status) { return {.status = status}; }

std::string_view reason(int status) noexcept
{
    switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 421: return "Misdirected Request";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return "Unknown";
    }
}

int status_of(const Error& error) noexcept
{
    switch (error.code) {
    case Code::NotFound: return 404;
    case Code::Conflict: return 409;
    case Code::Invalid: return 400;
    case Code::Denied: return 403;
    case Code::Unsupported: return 501;
    case Code::Exhausted: return 429;
    case Code::Unavailable: return 503;
    case Code::DeadlineExceeded: return 504;
    case Code::Internal: return 500;
    }
    return 500;
}

std::string render_head(int status, const Pairs& headers, Framing framing, std::uint64_t length,
                        bool keep_alive)
{
    std::string out;
    out.reserve(kUsualHead);
    const auto add = [&](const auto&... parts) { (out.append(parts), ...); };
    add(std::string_view("HTTP/1.1 "), std::to_string(status), " ", reason(status), "\r\nDate: ", http_date(),
        "\r\n");
    for (const auto& [name, value] : headers) {
        add(name, ": ");
        append_line(out, value);
        out += "\r\n";
    }
    if (framing == Framing::Length) add("Content-Length: ", std::to_string(length), "\r\n");
    if (framing == Framing::Chunked) out += "Transfer-Encoding: chunked\r\n";
    if (status != 101) out += keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
    out += "\r\n";
    return out;
}

} // namespace berth::http
